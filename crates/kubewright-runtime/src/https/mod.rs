//! HTTPS servers of a process: webhooks and metrics.
//!
//! [`ServingCertificate`] says where a server finds its certificate. New connections get the newest
//! one. Open connections keep theirs, so a rotation drops nothing.

mod certificate;
mod metrics;
mod server;

pub use certificate::{ServingCertificate, ServingCertificateError};
pub use metrics::CertificateMetrics;
#[cfg(feature = "webhook")]
pub(crate) use server::ServerState;
pub(crate) use server::{BoundServer, Handler, HttpsError, bind};
