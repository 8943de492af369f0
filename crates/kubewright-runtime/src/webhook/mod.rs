//! Webhooks for API servers: admission, and conversion between versions.
//!
//! Start at [`Webhooks`]: validators and mutators are functions over typed objects, and a
//! [`Converter`] converts between versions. [`WebhookServer`] serves them, with a certificate in
//! files or of a [`CertificateRotator`](crate::certificates::CertificateRotator).
//! [`Webhooks::configurations`] writes their manifest.
//!
//! ```
//! use kubewright_api::core::v1::ConfigMap;
//! use kubewright_runtime::certificates::ServingCertificate;
//! use kubewright_runtime::webhook::{WebhookServer, Webhooks};
//!
//! let webhooks = Webhooks::new()
//!     .set_defaults(|map: &mut ConfigMap| drop(map.metadata.labels.insert("seen", "yes".into())))
//!     .validate(|new: ConfigMap, _old, _| async move {
//!         if new.data.contains_key("colour") { Ok(()) } else { Err("a colour is needed".into()) }
//!     });
//! let certificate = ServingCertificate::files("tls.crt", "tls.key");
//! let server = WebhookServer::new(([0, 0, 0, 0], 9443).into(), certificate, webhooks);
//! # drop(server);
//! ```

mod configuration;
mod context;
mod conversion;
mod denial;
mod metrics;
mod request;
mod response;
mod route;
mod server;
mod tree;
mod webhooks;

pub use configuration::ClientConfig;
pub use context::{AdmissionContext, Operation};
pub use conversion::Converter;
pub use denial::{Denial, Warnings};
pub use metrics::WebhookMetrics;
pub use request::AdmissionRequest;
pub use response::AdmissionResponse;
#[cfg(feature = "testing")]
pub(crate) use server::Answering;
pub use server::{WebhookError, WebhookServer};
pub use webhooks::Webhooks;

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
