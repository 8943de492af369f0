//! How an authenticator reaches an identity provider.

use std::sync::Arc;

use crate::config::Config;
use crate::error::ConfigError;
use crate::transport::Transport;

/// Makes a transport to the server of a configuration. A function of the layer above, which owns
/// connections.
pub(crate) type Connect = fn(&Config) -> Result<Arc<dyn Transport>, ConfigError>;
