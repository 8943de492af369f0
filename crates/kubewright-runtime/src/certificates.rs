//! Certificates of the HTTPS servers of a program: [webhooks](crate::Manager) and metrics.
//!
//! A [`ServingCertificate`] is read from files, or issued by a [`CertificateRotator`].

pub use crate::https::{CertificateMetrics, ServingCertificate, ServingCertificateError};
pub use crate::rotation::{CertificateRotator, CertificateStorage, RotationError};
