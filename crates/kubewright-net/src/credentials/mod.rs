//! Client credentials: certificates, tokens, passwords, plugins, and impersonation.
//!
//! They never appear in `Debug` output, logs or errors.

mod certificate;
mod exec;
mod identity;
mod impersonation;
mod live;
mod oidc;
mod stored;

pub use certificate::{CertificateSource, ClientCertificate, KeySource};
pub use exec::{Exec, ExecPolicy};
#[doc(hidden)]
pub use identity::Identity;
pub use impersonation::Impersonation;
pub use live::LiveCertificate;
pub use oidc::Oidc;
pub use stored::Credentials;
