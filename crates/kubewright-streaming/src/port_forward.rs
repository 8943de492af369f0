//! The server's side of port-forward.
//!
//! Each connection to a port has two streams: data, and a text about an error. Over SPDY, which may
//! be tunnelled in WebSocket, the client opens both for each connection. The channels of WebSocket
//! have one connection per port of the request, and start with the number of the port.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::channels::ChannelEncoding;
use crate::handshake::{Handshake, StreamTransport};
use crate::spdy::{self, SpdyEvent, SpdySender};
use crate::tunnel::Tunnel;

/// The protocols over WebSocket.
pub const WEB_SOCKET_PROTOCOLS: &[&str] = &[TUNNEL, CHANNELS, CHANNELS_BASE64];
/// The protocols over SPDY.
pub const SPDY_PROTOCOLS: &[&str] = &["portforward.k8s.io"];
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: &str = "v4.channel.k8s.io";
const CHANNELS_BASE64: &str = "v4.base64.channel.k8s.io";

/// Maximum number of connections to ports at a time.
const CONNECTIONS_MAX: usize = 100;
/// How many parts wait for a port, before the other ports of the connection wait as well.
const QUEUED: usize = 64;
/// Size of a part.
const PART: usize = 32 << 10;
/// Time limit for the last messages.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a port. An error is a text for the user.
pub type Connect = Arc<dyn Fn(u16) -> Connecting + Send + Sync>;
/// A pending connection to a port.
pub type Connecting = Pin<Box<dyn Future<Output = Result<DuplexStream, String>> + Send>>;

/// The ports of a request for channels.
///
/// # Errors
/// A text for the user, as of a kubelet.
pub fn ports<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for port in value.split(',') {
            match port.parse::<u16>() {
                Ok(0) => return Err(format!("port {value:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(_) => return Err(format!("unable to parse {value:?} as a port")),
            }
        }
    }
    match ports.len() {
        0 => Err("query parameter \"port\" is required".to_owned()),
        1..=127 => Ok(ports),
        _ => Err("at most 127 ports can be forwarded over one connection".to_owned()),
    }
}

/// Forwards connections to ports until the client goes.
///
/// # Errors
/// If the connection breaks.
pub async fn serve<S>(stream: S, handshake: &Handshake, ports: &[u16], connect: &Connect) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    match (handshake.transport, handshake.protocol) {
        (StreamTransport::Spdy, _) => over_spdy(stream, connect).await,
        (StreamTransport::WebSocket, TUNNEL) => over_spdy(Tunnel::new(stream, Role::Server).await, connect).await,
        (StreamTransport::WebSocket, protocol) => {
            over_channels(stream, ChannelEncoding::of(protocol), ports, connect).await
        }
    }
}

/// Sends data of one stream.
#[derive(Clone)]
enum StreamSender {
    Spdy(SpdySender, u32),
    Channel { sender: mpsc::Sender<Message>, encoding: ChannelEncoding, channel: u8 },
}

impl StreamSender {
    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            StreamSender::Spdy(sender, stream) => sender.send(*stream, bytes).await,
            StreamSender::Channel { sender, encoding, channel } => {
                let sent = sender.send(encoding.encode(*channel, bytes)).await;
                sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// Ends the stream. Channels cannot be ended.
    async fn close(&self) -> io::Result<()> {
        match self {
            StreamSender::Spdy(sender, stream) => sender.close(*stream).await,
            StreamSender::Channel { .. } => Ok(()),
        }
    }

    async fn reset(&self) -> io::Result<()> {
        match self {
            StreamSender::Spdy(sender, stream) => sender.reset(*stream).await,
            StreamSender::Channel { .. } => Ok(()),
        }
    }
}

/// One connection to a port: its two streams, and what the client sends.
struct Connection {
    port: u16,
    data: StreamSender,
    error: StreamSender,
    input: mpsc::Receiver<Bytes>,
}

impl Connection {
    async fn run(self, connecting: Connecting) -> io::Result<()> {
        let Connection { port, data, error, mut input } = self;
        match connecting.await {
            Err(message) => {
                error.send(format!("error forwarding port {port}: {message}").as_bytes()).await?;
                error.close().await?;
                data.reset().await
            }
            Ok(stream) => {
                let (mut from, mut to) = split(stream);
                let upstream = async {
                    while let Some(bytes) = input.recv().await {
                        if to.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                    // The port may still answer.
                    let _ = to.shutdown().await;
                    std::future::pending::<io::Result<()>>().await
                };
                let downstream = async {
                    let mut part = vec![0; PART];
                    loop {
                        match from.read(&mut part).await {
                            Ok(0) | Err(_) => break,
                            Ok(length) => data.send(&part[..length]).await?,
                        }
                    }
                    data.close().await?;
                    error.close().await
                };
                tokio::select! {
                    ended = downstream => ended,
                    never = upstream => never,
                }
            }
        }
    }
}

/// A pair of streams that the client is opening.
#[derive(Default)]
struct Pair {
    data: Option<u32>,
    error: Option<u32>,
    port: u16,
}

async fn over_spdy<S: AsyncRead + AsyncWrite + Send>(stream: S, connect: &Connect) -> io::Result<()> {
    let (mut receiver, sender, writing) = spdy::server(stream);
    let serving = async move {
        let (mut pairs, mut inputs) = (HashMap::<String, Pair>::new(), HashMap::<u32, mpsc::Sender<Bytes>>::new());
        let mut connections = JoinSet::new();
        while let Some(event) = receiver.next().await? {
            while connections.try_join_next().is_some() {}
            match event {
                SpdyEvent::Opened(stream, headers) => {
                    let header = |name: &str| {
                        headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
                    };
                    let is_data = match header("streamtype") {
                        "data" => true,
                        "error" => false,
                        _ => {
                            sender.reset(stream).await?;
                            continue;
                        }
                    };
                    let Ok(port @ 1..) = header("port").parse::<u16>() else {
                        sender.reset(stream).await?;
                        continue;
                    };
                    // Old clients open the error stream first, and name no request.
                    let request = match header("requestid") {
                        "" if is_data => format!("stream {}", stream.wrapping_sub(2)),
                        "" => format!("stream {stream}"),
                        request => request.to_owned(),
                    };
                    let pair = pairs.entry(request.clone()).or_default();
                    pair.port = port;
                    *(if is_data { &mut pair.data } else { &mut pair.error }) = Some(stream);
                    if pairs.len() > CONNECTIONS_MAX || connections.len() >= CONNECTIONS_MAX {
                        pairs.remove(&request);
                        sender.reset(stream).await?;
                        continue;
                    }
                    if let Some(Pair { data: Some(data), error: Some(error), port }) = pairs.get(&request) {
                        let (to, input) = mpsc::channel(QUEUED);
                        inputs.insert(*data, to);
                        let stream = |stream: u32| StreamSender::Spdy(sender.clone(), stream);
                        let connection = Connection { port: *port, data: stream(*data), error: stream(*error), input };
                        connections.spawn(connection.run(connect(*port)));
                        pairs.remove(&request);
                    }
                }
                SpdyEvent::Data(stream, bytes) => {
                    if let Some(input) = inputs.get(&stream)
                        && input.send(bytes).await.is_err()
                    {
                        inputs.remove(&stream);
                    }
                }
                SpdyEvent::Ended(stream) => drop(inputs.remove(&stream)),
            }
        }
        Ok::<_, io::Error>(())
    };
    tokio::select! {
        served = serving => served,
        written = writing => written,
    }
}

async fn over_channels<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    encoding: ChannelEncoding,
    ports: &[u16],
    connect: &Connect,
) -> io::Result<()> {
    let (mut sink, mut source) = WebSocketStream::from_raw_socket(stream, Role::Server, None).await.split();
    let (out, mut queued) = mpsc::channel(QUEUED);
    let (mut inputs, mut connections) = (Vec::new(), JoinSet::new());
    for (index, port) in ports.iter().enumerate() {
        let channel = u8::try_from(2 * index).unwrap_or(u8::MAX);
        let sender = |channel| StreamSender::Channel { sender: out.clone(), encoding, channel };
        let (data, error) = (sender(channel), sender(channel + 1));
        for channel in [channel, channel + 1] {
            sink.feed(encoding.encode(channel, &port.to_le_bytes())).await.map_err(io::Error::other)?;
        }
        let (to, input) = mpsc::channel(QUEUED);
        inputs.push(to);
        connections.spawn(Connection { port: *port, data, error, input }.run(connect(*port)));
    }
    drop(out);
    let writing = async {
        sink.flush().await?;
        while let Some(message) = queued.recv().await {
            sink.send(message).await?;
        }
        // All connections have ended.
        timeout(CLOSE_TIMEOUT, sink.close()).await.unwrap_or(Ok(()))
    };
    let reading = async {
        while let Some(message) = source.next().await {
            let message = message?;
            if message.is_close() {
                break;
            }
            // A malformed message ends the connection.
            let Ok(decoded) = encoding.decode(&message) else { break };
            if let Some((channel, bytes)) = decoded
                && channel % 2 == 0
                && let Some(input) = inputs.get(usize::from(channel / 2))
            {
                // A port that reads no more is ignored.
                let _ = input.send(bytes).await;
            }
        }
        Ok(())
    };
    let ended: Result<(), tokio_tungstenite::tungstenite::Error> = tokio::select! {
        written = writing => written,
        read = reading => read,
    };
    ended.map_err(io::Error::other)
}
