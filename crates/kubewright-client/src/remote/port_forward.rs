//! Ports of a pod, reached through the server.
//!
//! Each port has two channels: one for its bytes and one for what is wrong with it. In the channels of WebSocket both begin with the
//! number of the port; streams of SPDY have headers for it. One connection to the server is one connection to each port. Neither protocol
//! has windows, so that ports of one connection wait for the slowest reader among them; [`Api::port_forward`] makes a connection for each.

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
use super::spdy::Opening;
use super::tunnel::Tunnel;
use super::{Handshake, RemoteError};
use crate::api::Api;
use crate::error::{Error, Result};
use crate::rest::Request;

/// SPDY inside of WebSocket, where the server knows it, or channels.
const PROTOCOLS: &[&str] = &[TUNNEL, "v4.channel.k8s.io"];
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const SPDY_PROTOCOLS: &[&str] = &["portforward.k8s.io"];
/// How much is held of a stream whose reader is slow, and sent in one message.
const BUFFER: usize = 32 << 10;
/// How long the other side is heard after it could not be written to any more: it may say why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection to a port of a pod.
pub type ForwardedPort = DuplexStream;

impl Api<Pod> {
    /// The request that connects to ports of a pod, for [`PortForward`] to speak on.
    ///
    /// # Errors
    /// If `ports` are none, or more than 127, for which there are no channels.
    pub fn port_forward_request(&self, name: &str, ports: &[u16]) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.wanted_ports(Method::GET, name, ports)?;
        Handshake::web_socket(request, PROTOCOLS)
    }

    /// As [`port_forward_request`](Self::port_forward_request), for [`PortForward::over_spdy`].
    ///
    /// # Errors
    /// As there.
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

/// Connections to ports of a pod. Dropping it ends them.
///
/// Ports that share a connection to the server wait for each other: what is not read from one holds up what comes after it for the others.
///
/// The channels of WebSocket cannot say that we will write no more, so that a port whose writing side is shut down can still be read.
pub struct PortForward {
    ports: Vec<Option<ForwardedPort>>,
    /// Whether a port learns that we will write no more.
    tells_end: bool,
    /// One for each connection to the server.
    tasks: JoinSet<Result<(), RemoteError>>,
}

impl PortForward {
    /// Speaks with `ports` over `stream`, on which channels of WebSocket were agreed. Must be called within a runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        Self::start(Channels::web_socket(stream), ports, false)
    }

    /// Speaks with `ports` over `stream`, on which SPDY was agreed. Must be called within a runtime.
    pub fn over_spdy(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        Self::start(std::future::ready(Channels::spdy(stream, openings(ports))), ports, true)
    }

    /// Speaks with `ports` over `stream`, on which SPDY inside of WebSocket was agreed. Must be called within a runtime.
    #[doc(alias = "NewSPDYOverWebsocketDialer")]
    pub fn over_tunnel(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ports: &[u16]) -> Self {
        let openings = openings(ports);
        Self::start(async move { Channels::spdy(Tunnel::new(stream).await, openings) }, ports, true)
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

    /// The ports of both, one after the other, each over its own connection.
    pub(super) fn and(mut self, mut other: PortForward) -> Self {
        self.ports.append(&mut other.ports);
        self.tells_end &= other.tells_end;
        // A set cannot be emptied into another, and one task more in the way of an end is none of the bytes.
        self.tasks.spawn(async move { other.wait().await });
        self
    }

    /// The connection to the port that was named at this place. `None` if it was taken before.
    pub fn take(&mut self, index: usize) -> Option<ForwardedPort> {
        self.ports.get_mut(index)?.take()
    }

    /// Whether a port learns that we will write no more.
    pub(super) fn tells_end(&self) -> bool {
        self.tells_end
    }

    /// Waits until the server ends the connections, or all readers have gone.
    ///
    /// # Errors
    /// When the connection to the server breaks, or a port refuses.
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

/// The streams of `ports`: what is wrong with each comes first, as servers want it.
fn openings(ports: &[u16]) -> Vec<Opening> {
    let both = ports.iter().enumerate().flat_map(|(index, port)| {
        [(index * 2 + 1, "error"), (index * 2, "data")].map(|(channel, kind)| Opening {
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

/// What a user has written to a port; nothing at the end.
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
    // Who writes is told of the end by that of its stream, so that it must not be long in coming.
    let last_words = async {
        match broke_off.await {
            Ok(()) => sleep(LAST_WORDS).await,
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
    // What the other side has said of its own accord tells more than that it cannot be reached.
    heard?;
    broken.map_or(Ok(()), Err)
}

/// Hands on what ports say, until all have ended or nobody listens to any.
async fn listen<S: AsyncRead + AsyncWrite + Unpin>(
    receiver: &mut Receiver<S>,
    is_spdy: bool,
    mut outputs: Vec<Option<WriteHalf<DuplexStream>>>,
) -> Result<(), RemoteError> {
    // The first bytes of each channel of WebSocket are the number of its port.
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

/// Sends what is written to the ports, until that breaks.
async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
    sender: &mut Sender<S>,
    is_spdy: bool,
    count: usize,
    mut written: mpsc::Receiver<Input>,
) -> Result<Infallible, RemoteError> {
    sender.open().await?;
    if is_spdy {
        // We have no complaints.
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

/// Hands on what a user writes, until the end.
async fn read(index: usize, mut input: ReadHalf<DuplexStream>, inputs: mpsc::Sender<Input>) {
    loop {
        let mut bytes = Vec::with_capacity(BUFFER);
        let length = input.read_buf(&mut bytes).await.unwrap_or(0);
        if inputs.send((index, bytes)).await.is_err() || length == 0 {
            return;
        }
    }
}
