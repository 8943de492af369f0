//! Transports: the interface between clients and the network.
//!
//! [`HttpTransport`](crate::connection::HttpTransport) connects to remote servers. Anything else
//! that answers requests can be a [`Transport`] too.

mod body;
mod error;
mod exchange;
mod stream;
mod upgrade;

pub use body::Body;
pub use error::{TransportError, TransportErrorKind};
pub use exchange::{RequestTimeout, ResponseFuture, Transport};
pub(crate) use stream::BoxedStream;
pub use stream::ByteStream;
pub use upgrade::{Upgrade, UpgradeFuture, Upgraded};

pub use crate::observer::{ExecOutcome, TransportMetrics, TransportObserver};
