//! Webhooks for API servers: admission, and conversion between versions.
//!
//! Start at [`WebhookServer`]. An admission handler is a function from an [`AdmissionRequest`] to
//! an
//! [`AdmissionResponse`]; changes of the object become a patch. A [`Converter`] converts between
//! versions.
//!
//! ```
//! use kubewright_api::core::v1::ConfigMap;
//! use kubewright_runtime::webhook::{AdmissionRequest, AdmissionResponse, WebhookServer, mutate_path};
//!
//! let server = WebhookServer::new(([0, 0, 0, 0], 9443).into(), "tls.crt", "tls.key")
//!     .admit(mutate_path::<ConfigMap>(), |request: AdmissionRequest<ConfigMap>| async move {
//!         request.mutate(|map| drop(map.metadata.labels.insert("seen", "yes".into())))
//!     })
//!     .admit("/no-deletions", |request: AdmissionRequest<ConfigMap>| async move {
//!         AdmissionResponse::deny(format!("{} stays", request.name))
//!     });
//! # drop(server);
//! ```

mod certificate;
mod conversion;
mod metrics;
mod request;
mod response;
mod route;
mod server;
mod tree;

pub use certificate::ServingCertificateError;
pub use conversion::Converter;
pub use metrics::WebhookMetrics;
pub use request::{AdmissionRequest, Operation};
pub use response::AdmissionResponse;
pub use server::{WebhookError, WebhookServer};

use kubewright_core::Kind;

/// controller-runtime's path of the validating webhook of a kind: `/validate-apps-v1-deployment`.
pub fn validate_path<K: Kind>() -> String {
    path_of::<K>("validate")
}

/// controller-runtime's path of the mutating webhook of a kind: `/mutate-apps-v1-deployment`.
pub fn mutate_path<K: Kind>() -> String {
    path_of::<K>("mutate")
}

fn path_of<K: Kind>(verb: &str) -> String {
    let kind = &K::RESOURCE.kind;
    format!("/{verb}-{}-{}-{}", kind.group.replace('.', "-"), kind.version, kind.kind.to_ascii_lowercase())
}
