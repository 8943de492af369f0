//! Obtains the credentials of requests: from token files, exec plugins and identity providers.
//!
//! Start at `AuthorizationSource`. Credentials are sent only over TLS, or over streams within this
//! process, and not even to loopback ports, which any local user may listen on.

mod authenticator;
mod connect;
mod exec;
mod oidc;
mod renewal;
mod token_file;

pub(crate) use authenticator::{AuthorizationSource, RequestCredentials};
pub use exec::ExecError;
pub use oidc::OidcError;
