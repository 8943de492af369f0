//! The server's side of exec and attach.
//!
//! Over WebSocket the channels have fixed numbers: 0 to 2 are the standard streams, 3 reports the
//! end, 4 is the size of the terminal. Over SPDY the client opens a stream for each of them. The
//! end is a Status in the protocols from version 4 on, and else a text about an error.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use kubewright_core::meta::v1::Status;
use kubewright_core::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::channels::ChannelEncoding;
use crate::handshake::{Handshake, StreamTransport};
use crate::spdy::{self, SpdyEvent, SpdyReceiver, SpdySender};

/// The protocols over WebSocket.
pub const WEB_SOCKET_PROTOCOLS: &[&str] = &[V5, V4, V4_BASE64, "channel.k8s.io", "base64.channel.k8s.io"];
/// The protocols over SPDY.
pub const SPDY_PROTOCOLS: &[&str] = &[V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const V4_BASE64: &str = "v4.base64.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The channel that closes others, in version 5.
const CLOSE: u8 = 255;

/// How many messages of input wait for the process, before pings of the client do as well.
const INPUT_QUEUED: usize = 256;
/// How many parts of output wait for the client.
const OUTPUT_QUEUED: usize = 8;
/// Time limit for the streams of a SPDY client.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the last messages.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The streams that a client wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandOptions {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error. A terminal has none.
    pub stderr: bool,
    /// Whether the client is a terminal.
    pub tty: bool,
}

/// The streams of a process. A dropped sender is the end of a stream.
#[derive(Debug)]
pub struct ProcessStreams {
    /// Standard input. It ends at once if the client wants none.
    pub stdin: mpsc::Receiver<Bytes>,
    /// Standard output, if the client wants it.
    pub stdout: Option<mpsc::Sender<Bytes>>,
    /// Standard error, if the client wants it.
    pub stderr: Option<mpsc::Sender<Bytes>>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this exit code.
    Exited(i32),
    /// It could not be started, or was lost.
    Failed(String),
}

/// Runs a process over a connection after its handshake. The process is dropped when the client
/// goes.
///
/// # Errors
/// If the connection breaks.
pub async fn serve<S, P>(
    stream: S,
    handshake: &Handshake,
    options: CommandOptions,
    process: impl FnOnce(ProcessStreams) -> P,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    P: Future<Output = ProcessEnd>,
{
    let protocol = handshake.protocol;
    match handshake.transport {
        StreamTransport::WebSocket => {
            let (sink, source) = WebSocketStream::from_raw_socket(stream, Role::Server, None).await.split();
            let encoding = ChannelEncoding::of(protocol);
            let mut sink = WebSocketSink { sink, encoding };
            let mut source = WebSocketSource { source, encoding, closes: protocol == V5 };
            // Tells the client that the connection is established.
            let first = if options.stdout {
                STDOUT
            } else if options.stderr {
                STDERR
            } else {
                ERROR
            };
            sink.send(first, Bytes::new()).await?;
            run(&mut source, &mut sink, protocol, options, process).await
        }
        StreamTransport::Spdy => {
            let (receiver, sender, writing) = spdy::server(stream);
            let serving = async move {
                let (mut source, mut sink) = spdy_halves(receiver, sender, protocol, options).await?;
                run(&mut source, &mut sink, protocol, options, process).await
            };
            let (mut serving, mut writing) = (pin!(serving), pin!(writing));
            let served = tokio::select! {
                served = &mut serving => served,
                written = &mut writing => return written,
            };
            // The queue is written when the halves, which `serving` owned, are gone.
            drop(served);
            timeout(CLOSE_TIMEOUT, writing).await.unwrap_or(Ok(()))
        }
    }
}

/// Receives messages of channels.
trait Source {
    /// The next message; `None` at the end of the connection.
    async fn receive(&mut self) -> io::Result<Option<Received>>;
}

/// Sends messages of channels.
trait Sink {
    async fn send(&mut self, channel: u8, bytes: Bytes) -> io::Result<()>;
    /// Ends all channels, and the connection.
    async fn finish(&mut self) -> io::Result<()>;
}

enum Received {
    Data(u8, Bytes),
    End(u8),
}

async fn run<P: Future<Output = ProcessEnd>>(
    source: &mut impl Source,
    sink: &mut impl Sink,
    protocol: &str,
    options: CommandOptions,
    process: impl FnOnce(ProcessStreams) -> P,
) -> io::Result<()> {
    let (stdin, input) = mpsc::channel(INPUT_QUEUED);
    let (stdout, mut output) = mpsc::channel(OUTPUT_QUEUED);
    let (stderr, mut errors) = mpsc::channel(OUTPUT_QUEUED);
    let streams = ProcessStreams {
        stdin: input,
        stdout: options.stdout.then_some(stdout),
        stderr: (options.stderr && !options.tty).then_some(stderr),
    };
    let mut stdin = options.stdin.then_some(stdin);
    let writing = async {
        let (mut process, mut end) = (pin!(process(streams)), None);
        // Output that was written before the end is sent before it.
        loop {
            let message = tokio::select! {
                biased;
                Some(bytes) = output.recv() => (STDOUT, bytes),
                Some(bytes) = errors.recv() => (STDERR, bytes),
                ended = &mut process, if end.is_none() => {
                    end = Some(ended);
                    continue;
                }
                else => break,
            };
            sink.send(message.0, message.1).await?;
            if end.is_some() && output.is_empty() && errors.is_empty() {
                break;
            }
        }
        let end = match end {
            Some(end) => end,
            None => process.await,
        };
        if let Some(report) = report(protocol, &end) {
            sink.send(ERROR, report).await?;
        }
        sink.finish().await
    };
    let reading = async {
        while let Some(received) = source.receive().await? {
            match received {
                Received::Data(STDIN, bytes) => {
                    if let Some(stdin) = &stdin {
                        // A process that has closed its input may go on.
                        let _ = stdin.send(bytes).await;
                    }
                }
                Received::End(STDIN) => stdin = None,
                Received::Data(..) | Received::End(_) => {}
            }
        }
        Ok::<_, io::Error>(())
    };
    tokio::select! {
        written = writing => written,
        read = reading => read,
    }
}

/// The message of the error channel about the end of a process.
fn report(protocol: &str, end: &ProcessEnd) -> Option<Bytes> {
    if !matches!(protocol, V4 | V4_BASE64 | V5) {
        let message = match end {
            ProcessEnd::Exited(0) => return None,
            ProcessEnd::Exited(code) => format!("command terminated with non-zero exit code: exit status {code}"),
            ProcessEnd::Failed(message) => message.clone(),
        };
        return Some(message.into());
    }
    let status: Value = match end {
        ProcessEnd::Exited(0) => json!({"metadata": {}, "status": "Success"}),
        ProcessEnd::Exited(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        ProcessEnd::Failed(message) => {
            let status = Status::internal(message);
            json!({
                "metadata": {},
                "status": "Failure",
                "message": status.message.unwrap_or_default().as_str(),
                "reason": "InternalError",
                "details": {"causes": [{"message": message.as_str()}]},
                "code": 500,
            })
        }
    };
    Some(status.to_string().into())
}

struct WebSocketSource<S> {
    source: SplitStream<WebSocketStream<S>>,
    encoding: ChannelEncoding,
    /// Whether the client can close a channel.
    closes: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Source for WebSocketSource<S> {
    async fn receive(&mut self) -> io::Result<Option<Received>> {
        loop {
            let message = match self.source.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok(None),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(message)) => message,
            };
            let decoded = self.encoding.decode(&message);
            match decoded.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))? {
                Some((CLOSE, bytes)) if self.closes && bytes.len() == 1 => return Ok(Some(Received::End(bytes[0]))),
                Some((channel, bytes)) => return Ok(Some(Received::Data(channel, bytes))),
                // The socket answers pings itself.
                None => {}
            }
        }
    }
}

struct WebSocketSink<S> {
    sink: SplitSink<WebSocketStream<S>, Message>,
    encoding: ChannelEncoding,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink for WebSocketSink<S> {
    async fn send(&mut self, channel: u8, bytes: Bytes) -> io::Result<()> {
        self.sink.send(self.encoding.encode(channel, &bytes)).await.map_err(io::Error::other)
    }

    async fn finish(&mut self) -> io::Result<()> {
        // Go's clients take any other end for an error.
        let normal = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        self.sink.send(Message::Close(Some(normal))).await.map_err(io::Error::other)
    }
}

struct SpdySource<S> {
    receiver: SpdyReceiver<S>,
    /// The streams by channel.
    streams: [Option<u32>; 5],
}

struct SpdySink {
    sender: SpdySender,
    streams: [Option<u32>; 5],
}

/// Waits until the client has opened its streams.
async fn spdy_halves<S: AsyncRead>(
    mut receiver: SpdyReceiver<S>,
    sender: SpdySender,
    protocol: &str,
    options: CommandOptions,
) -> io::Result<(SpdySource<S>, SpdySink)> {
    let resizes = options.tty && matches!(protocol, V4 | "v3.channel.k8s.io");
    let wanted = [options.stdin, options.stdout, options.stderr && !options.tty, true, resizes];
    let mut streams = [None; 5];
    let opening = async {
        while wanted.iter().zip(&streams).any(|(wanted, stream)| *wanted && stream.is_none()) {
            let Some(event) = receiver.next().await? else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            let SpdyEvent::Opened(stream, headers) = event else { continue };
            let kind = headers.iter().find(|(name, _)| name == "streamtype").map(|(_, value)| value.as_str());
            let channel = match kind {
                Some("stdin") => STDIN,
                Some("stdout") => STDOUT,
                Some("stderr") => STDERR,
                Some("error") => ERROR,
                Some("resize") => RESIZE,
                _ => continue,
            };
            streams[usize::from(channel)] = Some(stream);
        }
        Ok::<_, io::Error>(())
    };
    timeout(STREAMS_TIMEOUT, opening).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok((SpdySource { receiver, streams }, SpdySink { sender, streams }))
}

impl<S: AsyncRead> Source for SpdySource<S> {
    async fn receive(&mut self) -> io::Result<Option<Received>> {
        loop {
            let Some(event) = self.receiver.next().await? else { return Ok(None) };
            let channel_of = |stream: u32| {
                let at = self.streams.iter().position(|known| *known == Some(stream))?;
                u8::try_from(at).ok()
            };
            match event {
                SpdyEvent::Data(stream, bytes) => {
                    if let Some(channel) = channel_of(stream) {
                        return Ok(Some(Received::Data(channel, bytes)));
                    }
                }
                SpdyEvent::Ended(stream) => {
                    if let Some(channel) = channel_of(stream) {
                        return Ok(Some(Received::End(channel)));
                    }
                }
                SpdyEvent::Opened(..) => {}
            }
        }
    }
}

impl Sink for SpdySink {
    async fn send(&mut self, channel: u8, bytes: Bytes) -> io::Result<()> {
        match self.streams.get(usize::from(channel)) {
            Some(Some(stream)) => self.sender.send(*stream, &bytes).await,
            _ => Ok(()),
        }
    }

    async fn finish(&mut self) -> io::Result<()> {
        for channel in [STDOUT, STDERR, ERROR] {
            if let Some(stream) = self.streams[usize::from(channel)] {
                self.sender.close(stream).await?;
            }
        }
        Ok(())
    }
}
