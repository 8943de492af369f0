//! exec, attach and port-forward over WebSocket or SPDY.
//!
//! [`Api<Pod>`](crate::Api) has `exec`, `attach` and `port_forward`. They consist of three steps,
//! which are public for callers with their own connections: the request and its [`Handshake`];
//! [`Handshake::finish`], which verifies the response; and [`Process`] or [`PortForward`] over the
//! resulting byte stream.
//!
//! Servers support `v5.channel.k8s.io` since 1.30. If a server rejects WebSocket, SPDY is tried, as
//! in client-go. Port-forward uses SPDY tunnelled in WebSocket, which supports half-close, or the
//! older channels.

mod channel;
mod connect;
mod error;
mod exec;
mod exit;
mod handshake;
mod limits;
mod listener;
mod port_forward;
mod process;
mod spdy;

pub use error::RemoteError;
pub use exec::{AttachOptions, ExecOptions, TerminalSize};
pub use exit::ExitStatus;
pub use handshake::Handshake;
pub use listener::{PortListener, PortPair};
pub use port_forward::{ForwardedPort, PortForward};
pub use process::Process;
