//! Who sends a request, and whether they may: authentication and authorization as in
//! kube-apiserver, without HTTP.
//!
//! [`authentication`] turns a connection and the headers of a request into a [`User`].
//! [`authorization`] decides whether a user may perform an [`Action`](authorization::Action), by
//! the RBAC objects that an [`ObjectReader`](kubewright_objects::lookup::ObjectReader) returns.

pub mod authentication;
pub mod authorization;
mod user;

pub use user::{MASTERS, User};
