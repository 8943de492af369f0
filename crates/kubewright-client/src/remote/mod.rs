//! Processes in containers, and ports of pods, over WebSocket or SPDY.
//!
//! [`Api<Pod>`](crate::Api) has `exec`, `attach` and `port_forward`. Behind them an exchange has three steps, open to those
//! who have connections of their own: the request and its [`Handshake`]; [`Handshake::finish`], which checks the server's
//! answer; and [`Process`] or [`PortForward`], which speak on the stream of bytes behind it, whatever that is.
//!
//! Servers have spoken `v5.channel.k8s.io` since 1.30. Where a server refuses WebSocket, SPDY is tried, as client-go does. Ports are
//! forwarded by SPDY inside of WebSocket, which tells when one side will write no more, or in the older channels.

mod channel;
mod connect;
mod exec;
mod exit;
mod handshake;
mod listener;
mod port_forward;
mod process;
mod spdy;
mod tunnel;

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
