//! A client certificate that is asked for through CertificateSigningRequests, kept, and renewed in time.
//!
//! Start at [`CertificateManager`]. Who approves and signs is the cluster's business; where certificates are kept is a
//! [`CertificateStore`]'s, for example a [`FileStore`]'s. Keys appear in no `Debug` form, log or error, and never leave
//! the process but for the store.

mod error;
mod file_store;
mod issued;
mod leaf;
mod manager;
mod options;
mod request;
mod store;
mod template;

pub use error::{CertificateError, Decision};
pub use file_store::FileStore;
pub use issued::IssuedCertificate;
pub use manager::{CertificateManager, bootstrap_with};
pub use options::ManagerOptions;
pub use store::{CertificateStore, MemoryStore};
pub use template::CertificateTemplate;
