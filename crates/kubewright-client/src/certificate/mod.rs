//! Client certificates from CertificateSigningRequests, with storage and rotation.
//!
//! Start at [`CertificateManager`]. Approval and signing are up to the cluster; certificates are
//! stored in a
//! [`CertificateStore`], for example a [`FileStore`]. Keys never appear in `Debug` output, logs or
//! errors, and leave the process only for the store.

mod error;
mod file_store;
mod issued;
mod leaf;
mod manager;
mod options;
mod request;
mod store;
mod template;

pub use error::{CertificateError, SigningRefusal};
pub use file_store::FileStore;
pub use issued::IssuedCertificate;
pub use manager::{CertificateManager, bootstrap_with};
pub use options::CertificateManagerOptions;
pub use store::{CertificateStore, MemoryStore};
pub use template::CertificateTemplate;
