//! Authentication and authorization of requests as in kube-apiserver, without an HTTP server.
//!
//! [`authentication`] turns a connection and the headers of a request into a [`User`].
//! [`authorization`] decides whether a user may perform an [`Action`](authorization::Action), by
//! the RBAC objects that an [`ObjectReader`](kubewright_objects::lookup::ObjectReader) returns.
//!
//! ```
//! use kubewright_auth::{MASTERS, User};
//!
//! let admin = User::authenticated("jane", "", vec![MASTERS.into()]);
//! assert!(admin.is_in(MASTERS) && admin.is_in("system:authenticated"));
//! assert!(!User::anonymous().is_in("system:authenticated"));
//! ```

pub mod authentication;
pub mod authorization;
pub mod node_restriction;
mod user;

pub use user::{MASTERS, User};
