//! The resources that an API server serves, and the documents and request bodies about them.
//!
//! - [`catalog`]: the built-in resources and those of CustomResourceDefinitions. A [`Catalog`] is
//!   immutable; a changed definition creates a new one.
//! - [`discovery`] and [`openapi`]: the documents that describe the served resources.
//! - [`accept`]: the format and the form of a response, as negotiated by the `Accept` header.
//! - [`decoding`]: the object in a request body, with the messages of kube-apiserver.
//!
//! The crate knows neither connections nor stored objects. Paths, headers and caching over HTTP are
//! left to the server. Tables are in `kubewright-printers`, validation in `kubewright-validation`.
//!
//! [`Catalog`]: catalog::Catalog
//!
//! ```
//! use kubewright_resources::accept::Format;
//! use kubewright_resources::catalog::Catalog;
//! use kubewright_resources::decoding::{self, ExpectedType};
//!
//! let catalog = Catalog::new([]);
//! let resource = catalog.of_kind("v1", "ConfigMap").expect("a built-in kind");
//! assert_eq!((&*resource.plural, resource.namespaced), ("configmaps", true));
//!
//! let body = br#"{"metadata": {"name": "a"}, "colour": "red"}"#;
//! let decoded = decoding::object(ExpectedType::from(&**resource), Format::Json, body)?;
//! assert_eq!(decoded.findings, [r#"unknown field "colour""#]);
//! # Ok::<(), Box<kubewright_core::meta::v1::Status>>(())
//! ```

pub mod accept;
pub mod catalog;
pub mod decoding;
pub mod discovery;
mod hash;
pub mod openapi;
