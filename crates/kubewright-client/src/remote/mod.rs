//! Processes in containers, and ports of pods, over WebSocket.
//!
//! An exchange has three steps: [`Api<Pod>`](crate::Api) makes the request and its [`Handshake`]; the connection is made by
//! whoever has connections; [`Handshake::finish`] checks the server's answer, and [`Process`] or [`PortForward`] speaks on
//! the stream of bytes behind it. That stream may be anything, which is how the tests do without a network.
//!
//! Servers have spoken `v5.channel.k8s.io` since 1.30. SPDY, which older ones spoke too, is not spoken here.

mod channel;
mod exec;
mod exit;
mod handshake;
mod listener;
mod port_forward;
mod process;

pub use exec::{AttachOptions, ExecOptions, TerminalSize};
pub use exit::ExitStatus;
pub use handshake::Handshake;
pub use listener::{PortListener, PortPair};
pub use port_forward::{ForwardedPort, PortForward};
pub use process::Process;

use crate::transport::TransportError;

/// Why an exchange with a process or a port ended too early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The connection broke, or the other side was not heard of for too long.
    #[error("lost connection to pod")]
    #[doc(alias = "ErrLostConnectionToPod")]
    Disconnected(#[source] TransportError),
    /// The other side does not keep to the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server could not do it, for example because nobody listens on the port.
    #[error("{0}")]
    Refused(String),
}
