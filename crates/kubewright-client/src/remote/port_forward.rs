//! Port-forward.
//!
//! Each port has two channels: data and error. WebSocket channels start with the port number; SPDY
//! streams have headers for it. One connection to the server is one connection to each port.
//! Neither protocol has flow control per stream, so ports of one connection wait for the slowest
//! reader; [`Api::port_forward`] opens one connection per port.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::time::Duration;

use http::Method;
use kubewright_api::core::v1::Pod;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::channel::{Channels, Receiver, Sender, side_by_side};
use super::spdy::StreamOpening;
use super::{Handshake, RemoteError};
use crate::api::Api;
use crate::error::{Error, Result};
use crate::rest::Request;
use kubewright_streaming::tunnel::{Role, Tunnel};

/// SPDY tunnelled in WebSocket if supported, else WebSocket channels.
const PROTOCOLS: &[&str] = &[TUNNEL, "v4.channel.k8s.io"];
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const SPDY_PROTOCOLS: &[&str] = &["portforward.k8s.io"];
/// Buffer of a stream with a slow reader, and maximum message size.
const BUFFER: usize = 32 << 10;
/// How long to keep reading after a write failed: the peer may send the reason.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to a port of a pod.
pub type ForwardedPort = DuplexStream;

impl Api<Pod> {
    /// The request to connect to ports of a pod, for [`PortForward`].
    ///
    /// # Errors
    /// If `ports` is empty, or has more than 127 entries, the number of channels.
    pub fn port_forward_request(&self, name: &str, ports: &[u16]) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.wanted_ports(Method::GET, name, ports)?;
        Handshake::web_socket(request, PROTOCOLS)
    }

    /// Like [`port_forward_request`](Self::port_forward_request), for [`PortForward::over_spdy`].
    ///
    /// # Errors
    /// As [`port_forward_request`](Self::port_forward_request).
    pub fn port_forward_spdy_request(
        &self,
        name: &str,
        ports: &[u16],
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.wanted_ports(Method::POST, name, ports)?;
        Handshake::spdy(request, SPDY_PROTOCOLS)
    }

    fn wanted_ports(&self, method: Method, name: &str, ports: &[u16]) -> Result<Request<'_>> {
        if ports.is_empty() || ports.len() > 127 {
            return Err(Error::InvalidRequest(format!("cannot forward {} ports at once", ports.len())));
        }
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        Ok(self.subresource_request(method, name, "portforward").parameter("ports", list.join(",")))
    }
}

/// Connections to ports of a pod. Dropping it closes them.
///
/// Ports on one connection to the server block each other: unread data of one port delays the
/// others.
///
/// WebSocket channels cannot signal a half-close; a port can still be read after its writing half
/// was shut down.
pub struct PortForward {
    ports: Vec<Option<ForwardedPort>>,
    /// Whether a half-close is signalled to the port.
    tells_end: bool,
    /// One task per connection to the server.
    tasks: JoinSet<Result<(), RemoteError>>,
}

impl PortForward {
    /// Connects to `ports` over `stream` after a WebSocket handshake. Must be called within a
    /// runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        Self::start(Channels::web_socket(stream), ports, false)
    }

    /// Connects to `ports` over `stream` after a SPDY handshake. Must be called within a runtime.
    pub fn over_spdy(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        Self::start(std::future::ready(Channels::spdy(stream, openings(ports))), ports, true)
    }

    /// Connects to `ports` over `stream` with SPDY tunnelled in WebSocket. Must be called within a
    /// runtime.
    #[doc(alias = "NewSPDYOverWebsocketDialer")]
    pub fn over_tunnel(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        let openings = openings(ports);
        Self::start(async move { Channels::spdy(Tunnel::new(stream, Role::Client).await, openings) }, ports, true)
    }

    fn start<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        channels: impl Future<Output = Channels<S>> + Send + 'static,
        ports: &[u16],
        tells_end: bool,
    ) -> Self {
        let (ours, theirs): (Vec<_>, Vec<_>) = ports.iter().map(|_| duplex(BUFFER)).map(|(a, b)| (Some(a), b)).unzip();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { run(channels.await, theirs).await });
        PortForward { ports: ours, tells_end, tasks }
    }

    /// Combines both, each over its own connection.
    pub(super) fn and(mut self, mut other: PortForward) -> Self {
        self.ports.append(&mut other.ports);
        self.tells_end &= other.tells_end;
        // A `JoinSet` cannot be merged into another one. The additional task does not handle data.
        self.tasks.spawn(async move { other.wait().await });
        self
    }

    /// The connection to the port at this index. `None` if it was taken before.
    pub fn take(&mut self, index: usize) -> Option<ForwardedPort> {
        self.ports.get_mut(index)?.take()
    }

    /// Whether a half-close is signalled to the port.
    pub(super) fn tells_end(&self) -> bool {
        self.tells_end
    }

    /// Waits until the server closes the connections, or all readers are dropped.
    ///
    /// # Errors
    /// If the connection to the server breaks, or a port reports an error.
    pub async fn wait(mut self) -> Result<(), RemoteError> {
        self.ports.clear();
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(ended) => ended?,
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortForward").field("ports", &self.ports.len()).finish_non_exhaustive()
    }
}

/// The streams of `ports`: the error stream of each first, as servers expect.
fn openings(ports: &[u16]) -> Vec<StreamOpening> {
    let both = ports.iter().enumerate().flat_map(|(index, port)| {
        [(index * 2 + 1, "error"), (index * 2, "data")].map(|(channel, kind)| StreamOpening {
            channel: channel as u8,
            is_read: true,
            headers: vec![
                ("streamType", kind.to_owned()),
                ("port", port.to_string()),
                ("requestID", index.to_string()),
            ],
        })
    });
    both.collect()
}

/// Data written by the user; empty at the end.
type Input = (usize, Vec<u8>);

async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    channels: Channels<S>,
    streams: Vec<DuplexStream>,
) -> Result<(), RemoteError> {
    let is_spdy = channels.is_spdy();
    let Channels { mut receiver, mut sender } = channels;
    let (inputs, written) = mpsc::channel::<Input>(1);
    let mut readers = JoinSet::new();
    let mut outputs: Vec<Option<WriteHalf<DuplexStream>>> = Vec::new();
    for (index, stream) in streams.into_iter().enumerate() {
        let (input, output) = split(stream);
        outputs.push(Some(output));
        readers.spawn(read(index, input, inputs.clone()));
    }
    drop(inputs);
    let (break_off, broke_off) = oneshot::channel();
    let speaking = speak(&mut sender, is_spdy, outputs.len(), written);
    let speaking = async {
        let broken = speaking.await;
        let _ = break_off.send(());
        broken
    };
    // The user learns of the failure from the end of its stream, so the wait is short.
    let last_words = async {
        match broke_off.await {
            Ok(()) => sleep(DRAIN_TIMEOUT).await,
            Err(_) => pending().await,
        }
    };
    let listening = async {
        tokio::select! {
            heard = listen(&mut receiver, is_spdy, outputs) => heard,
            () = last_words => Ok(()),
        }
    };
    let (heard, broken) = side_by_side(listening, speaking).await;
    sender.end().await;
    // The peer's own message is more informative than the broken connection.
    heard?;
    broken.map_or(Ok(()), Err)
}

/// Delivers received data until all ports have ended or all readers are dropped.
async fn listen<S: AsyncRead + AsyncWrite + Unpin>(
    receiver: &mut Receiver<S>,
    is_spdy: bool,
    mut outputs: Vec<Option<WriteHalf<DuplexStream>>>,
) -> Result<(), RemoteError> {
    // The first two bytes of each WebSocket channel are its port number.
    let mut named = vec![if is_spdy { 2u8 } else { 0 }; outputs.len() * 2];
    while outputs.iter().any(Option::is_some) {
        let Some((channel, mut bytes)) = receiver.receive().await? else { break };
        let Some(seen) = named.get_mut(usize::from(channel)) else { continue };
        let head = bytes.len().min(usize::from(2 - *seen));
        *seen += head as u8;
        let bytes = bytes.split_off(head);
        let (index, is_error) = (usize::from(channel / 2), channel % 2 == 1);
        if is_error && !bytes.is_empty() {
            return Err(RemoteError::Refused(String::from_utf8_lossy(&bytes).trim().to_owned()));
        }
        if let Some(output) = &mut outputs[index]
            && output.write_all(&bytes).await.is_err()
        {
            outputs[index] = None;
        }
    }
    Ok(())
}

/// Sends written data until that fails.
async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
    sender: &mut Sender<S>,
    is_spdy: bool,
    count: usize,
    mut written: mpsc::Receiver<Input>,
) -> Result<Infallible, RemoteError> {
    sender.open().await?;
    if is_spdy {
        // We never write to error streams.
        for index in 0..count {
            sender.close((index * 2 + 1) as u8).await?;
        }
    }
    loop {
        tokio::select! {
            due = sender.due() => sender.live(due).await?,
            Some((index, bytes)) = written.recv() => match &bytes[..] {
                [] if is_spdy => sender.close((index * 2) as u8).await?,
                [] => {}
                bytes => sender.send((index * 2) as u8, bytes).await?,
            },
        }
    }
}

/// Forwards the user's data until its end.
async fn read(index: usize, mut input: ReadHalf<DuplexStream>, inputs: mpsc::Sender<Input>) {
    loop {
        let mut bytes = Vec::with_capacity(BUFFER);
        let length = input.read_buf(&mut bytes).await.unwrap_or(0);
        if inputs.send((index, bytes)).await.is_err() || length == 0 {
            return;
        }
    }
}
