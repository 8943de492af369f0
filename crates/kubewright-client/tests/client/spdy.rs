//! exec and port-forward over SPDY, with an independent frame parser as peer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress};
use futures_util::{SinkExt, StreamExt};
use http::{Request, Response};
use kubewright_client::remote::{AttachOptions, ExecOptions, PortForward, Process, RemoteError, TerminalSize};
use kubewright_client::transport::{
    Body, ResponseFuture, Transport, TransportError, TransportErrorKind, Upgrade, UpgradeFuture, Upgraded,
};
use kubewright_client::{Client, Error};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::remote::{LONG, NARROW, converse};

const EXIT_3: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NonZeroExitCode",
    "message":"command terminated with exit code 3","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;

/// A frame sent by the client.
#[derive(Debug, PartialEq)]
enum Heard {
    Opened(u32, String),
    Data(u32, String),
    Ended(u32),
    Ping(u32),
    GoAway,
}

struct Peer<S> {
    stream: S,
    headers: Decompress,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    fn new(stream: S) -> Self {
        Peer { stream, headers: Decompress::new(true) }
    }

    async fn hear(&mut self) -> Heard {
        let head = self.stream.read_u64().await.unwrap();
        let (first, flags, length) = ((head >> 32) as u32, (head >> 24) as u8, head as usize & 0x00ff_ffff);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        let number = || u32::from_be_bytes(body[..4].try_into().unwrap());
        match first {
            0x8003_0001 => Heard::Opened(number(), self.header_block(&body[10..])),
            0x8003_0006 => Heard::Ping(number()),
            0x8003_0007 => Heard::GoAway,
            stream if stream >> 31 == 0 && flags == 1 && body.is_empty() => Heard::Ended(stream),
            stream if stream >> 31 == 0 => Heard::Data(stream, String::from_utf8(body).unwrap()),
            other => panic!("unexpected frame {other:x}"),
        }
    }

    /// Names and values with `=` and spaces between them.
    fn header_block(&mut self, block: &[u8]) -> String {
        let mut plain = Vec::with_capacity(4096);
        self.headers.decompress_vec(block, &mut plain, FlushDecompress::Sync).unwrap();
        let (count, mut rest) = plain.split_first_chunk::<4>().unwrap();
        let mut text = || {
            let (length, after) = rest.split_first_chunk::<4>().unwrap();
            let (text, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            rest = after;
            String::from_utf8(text.to_vec()).unwrap()
        };
        let pairs: Vec<_> = (0..u32::from_be_bytes(*count)).map(|_| format!("{}={}", text(), text())).collect();
        pairs.join(" ")
    }

    async fn say(&mut self, stream: u32, bytes: &[u8]) {
        self.frame(stream, 0, bytes).await;
    }

    async fn end(&mut self, stream: u32) {
        self.frame(stream, 1, b"").await;
    }

    async fn frame(&mut self, first: u32, flags: u8, bytes: &[u8]) {
        let head = [first.to_be_bytes(), (u32::from(flags) << 24 | bytes.len() as u32).to_be_bytes()].concat();
        self.stream.write_all(&[&head, bytes].concat()).await.unwrap();
        self.stream.flush().await.unwrap();
    }
}

/// SPDY inside of WebSocket, with messages of a few bytes from the server.
async fn tunnel(size: usize, message: usize) -> (DuplexStream, Peer<DuplexStream>) {
    let (client, server) = duplex(size);
    let (ours, theirs) = duplex(size);
    let (mut sink, mut stream) = WebSocketStream::from_raw_socket(server, Role::Server, None).await.split();
    let (mut from_peer, mut to_peer) = split(theirs);
    tokio::spawn(async move {
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Binary(bytes) = message
                && to_peer.write_all(&bytes).await.is_err()
            {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let mut piece = vec![0; message];
        while let Ok(length @ 1..) = from_peer.read(&mut piece).await {
            // Frames are split at message boundaries.
            if sink.send(Message::Binary(Bytes::copy_from_slice(&piece[..length]))).await.is_err() {
                return;
            }
        }
    });
    (client, Peer::new(ours))
}

/// Echoes one stream on another for a whole conversation.
async fn repeat<S: AsyncRead + AsyncWrite + Unpin>(peer: &mut Peer<S>, from: u32, to: u32) {
    let mut left = LONG;
    while left > 0 {
        if let Heard::Data(stream, text) = peer.hear().await {
            assert_eq!(stream, from);
            left -= text.len();
            peer.say(to, text.as_bytes()).await;
        }
    }
}

fn pair() -> (DuplexStream, Peer<DuplexStream>) {
    let (client, server) = duplex(1 << 20);
    (client, Peer::new(server))
}

#[tokio::test(start_paused = true)]
async fn a_process_uses_spdy_streams() {
    // RX-1, RX-2
    let (client, mut peer) = pair();
    let mut process = Process::over_spdy(client, "v4.channel.k8s.io", &AttachOptions::default().stdin());
    for (number, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        assert_eq!(peer.hear().await, Heard::Opened(number, format!("streamtype={kind}")));
        // The headers of a reply are compressed and carry no information.
        peer.frame(0x8003_0002, 0, &[0, 0, 0, number as u8, 1, 2, 3]).await;
    }
    let (mut stdin, mut stdout) = (process.stdin().unwrap(), process.stdout().unwrap());
    stdin.write_all(b"question").await.unwrap();
    assert_eq!(peer.hear().await, Heard::Data(3, "question".to_owned()));
    drop(stdin);
    assert_eq!(peer.hear().await, Heard::Ended(3));
    peer.frame(0x8003_0006, 0, &[0, 0, 0, 2]).await;
    assert_eq!(peer.hear().await, Heard::Ping(2), "theirs is answered");
    assert_eq!(peer.hear().await, Heard::Ping(1), "ours comes after a while");
    peer.say(99, b"for nobody").await;
    peer.say(5, b"answer").await;
    peer.say(1, EXIT_3.as_bytes()).await;
    for stream in [5, 7, 1] {
        peer.end(stream).await;
    }
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!((&text[..], process.wait().await.unwrap().code()), ("answer", Some(3)));
    assert_eq!(peer.hear().await, Heard::GoAway);
}

#[tokio::test]
async fn older_protocol_versions_report_failure_as_text() {
    // RX-1
    let options = AttachOptions { stdout: false, ..AttachOptions::default().tty() };
    let (client, mut peer) = pair();
    let process = Process::over_spdy(client, "v2.channel.k8s.io", &options);
    process.resize(TerminalSize { width: 80, height: 24 });
    assert_eq!(peer.hear().await, Heard::Opened(1, "streamtype=error".to_owned()), "and no stream for sizes");
    peer.end(1).await;
    assert!(process.wait().await.unwrap().success());

    let (client, mut peer) = pair();
    let process = Process::over_spdy(client, "v3.channel.k8s.io", &options);
    process.resize(TerminalSize { width: 80, height: 24 });
    peer.hear().await;
    assert_eq!(peer.hear().await, Heard::Opened(3, "streamtype=resize".to_owned()));
    assert_eq!(peer.hear().await, Heard::Data(3, r#"{"Width":80,"Height":24}"#.to_owned()));
    peer.say(1, b"container not found\n").await;
    peer.end(1).await;
    let error = process.wait().await.unwrap_err();
    assert!(matches!(&error, RemoteError::Refused(words) if words == "container not found"), "{error:?}");

    let (client, mut peer) = pair();
    let process = Process::over_spdy(client, "v4.channel.k8s.io", &options);
    peer.hear().await;
    drop(peer);
    assert!(process.wait().await.is_err(), "a connection that breaks is no good end");
}

async fn plays_a_port<S: AsyncRead + AsyncWrite + Unpin>(mut peer: Peer<S>, mut forward: PortForward) {
    let headers = |kind: &str, port: u16, id: u8| format!("streamtype={kind} port={port} requestid={id}");
    for (number, expected) in [
        (1, headers("error", 80, 0)),
        (3, headers("data", 80, 0)),
        (5, headers("error", 5432, 1)),
        (7, headers("data", 5432, 1)),
    ] {
        assert_eq!(peer.hear().await, Heard::Opened(number, expected));
    }
    assert_eq!([peer.hear().await, peer.hear().await], [Heard::Ended(1), Heard::Ended(5)]);
    let mut port = forward.take(1).unwrap();
    port.write_all(b"select 1").await.unwrap();
    assert_eq!(peer.hear().await, Heard::Data(7, "select 1".to_owned()));
    port.shutdown().await.unwrap();
    assert_eq!(peer.hear().await, Heard::Ended(7), "they learn that no more will come");
    peer.say(7, b"one").await;
    let mut answer = [0; 3];
    port.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"one");
    peer.say(1, b"nobody listens on 80").await;
    let error = forward.wait().await.unwrap_err();
    assert!(matches!(&error, RemoteError::Refused(words) if words == "nobody listens on 80"), "{error:?}");
}

#[tokio::test]
async fn ports_are_streams_of_spdy() {
    // PF-1
    let (client, peer) = pair();
    plays_a_port(peer, PortForward::over_spdy(client, &[80, 5432])).await;
}

#[tokio::test]
async fn ports_are_streams_of_spdy_inside_of_web_socket() {
    // PF-1
    let (client, peer) = tunnel(1 << 20, 5).await;
    plays_a_port(peer, PortForward::over_tunnel(client, &[80, 5432])).await;
}

#[tokio::test(start_paused = true)]
async fn process_output_is_read_while_input_is_written() {
    // RX-1
    let (client, server) = duplex(NARROW);
    let mut peer = Peer::new(server);
    let mut process = Process::over_spdy(client, "v4.channel.k8s.io", &AttachOptions::default().stdin());
    let cat = tokio::spawn(async move {
        repeat(&mut peer, 3, 5).await;
        assert_eq!(peer.hear().await, Heard::Ended(3));
        for stream in [5, 7, 1] {
            peer.end(stream).await;
        }
        peer
    });
    let (stdin, stdout) = (process.stdin().unwrap(), process.stdout().unwrap());
    converse(stdout, stdin).await;
    assert!(process.wait().await.unwrap().success());
    cat.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_port_is_read_while_it_is_written() {
    // PF-1
    let (client, server) = duplex(NARROW);
    let plain = (PortForward::over_spdy(client, &[80]), Peer::new(server));
    let (client, peer) = tunnel(NARROW, 4096).await;
    for (mut forward, mut peer) in [plain, (PortForward::over_tunnel(client, &[80]), peer)] {
        let echo = tokio::spawn(async move {
            repeat(&mut peer, 3, 3).await;
            assert_eq!(peer.hear().await, Heard::Ended(3));
            peer.end(3).await;
            peer.end(1).await;
            peer
        });
        let (from, to) = split(forward.take(0).unwrap());
        converse(from, to).await;
        forward.wait().await.unwrap();
        echo.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_keeps_its_connection() {
    // RX-1, PF-1
    let (client, mut peer) = pair();
    let mut forward = PortForward::over_spdy(client, &[80]);
    let serving = tokio::spawn(async move {
        peer.say(3, &[b'x'; 100_000]).await;
        // The port is quiet for six minutes.
        let mut pings = 0;
        while pings < 72 {
            if let Heard::Ping(number) = peer.hear().await {
                pings += 1;
                peer.frame(0x8003_0006, 0, &number.to_be_bytes()).await;
            }
        }
        peer.end(3).await;
        peer.end(1).await;
        peer
    });
    let mut port = forward.take(0).unwrap();
    sleep(Duration::from_secs(300)).await;
    let mut heard = Vec::new();
    port.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard.len(), 100_000);
    forward.wait().await.unwrap();
    serving.await.unwrap();
}

/// The body of a rejection.
#[derive(Clone, Copy, Default)]
enum Words {
    #[default]
    None,
    Endless,
    Cut,
}

impl Words {
    fn body(self) -> Body {
        let cut = || Err(TransportError::new(TransportErrorKind::Disconnected, "scripted"));
        match self {
            Words::None => Body::new(futures_util::stream::empty()),
            Words::Endless => Body::new(futures_util::stream::pending()),
            Words::Cut => Body::new(futures_util::stream::iter([Ok(Bytes::from_static(b"beca")), cut()])),
        }
    }
}

/// Answers upgrade requests in order, and records them.
#[derive(Clone, Default)]
struct Switching {
    answers: Arc<Mutex<VecDeque<Result<DuplexStream, u16>>>>,
    /// The bodies of rejections.
    words: Words,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Transport for Switching {
    fn send(&self, _: Request<Bytes>) -> ResponseFuture {
        unreachable!("nothing else is asked for")
    }

    fn upgrade(&self, request: Request<Bytes>) -> UpgradeFuture {
        let headers = request.headers();
        self.asked.lock().unwrap().push(format!("{} {}", request.method(), headers["upgrade"].to_str().unwrap()));
        let answer = Response::builder().header("upgrade", headers["upgrade"].clone());
        let answer = match headers.get("sec-websocket-key") {
            Some(key) => answer
                .header("sec-websocket-accept", derive_accept_key(key.as_bytes()))
                .header("sec-websocket-protocol", "SPDY/3.1+portforward.k8s.io"),
            None => answer.header("x-stream-protocol-version", headers["x-stream-protocol-version"].clone()),
        };
        let (next, words) = (self.answers.lock().unwrap().pop_front(), self.words);
        Box::pin(async move {
            Ok(match next {
                None => std::future::pending().await,
                Some(Ok(stream)) => Upgrade::Switched(answer.status(101).body(()).unwrap(), Upgraded::new(stream)),
                Some(Err(code)) => Upgrade::Refused(answer.status(code).body(words.body()).unwrap()),
            })
        })
    }
}

#[tokio::test]
async fn spdy_is_the_fallback_if_web_socket_is_rejected() {
    // RX-1, PF-1
    let switching = Switching::default();
    let pods = Client::over(switching.clone()).core_v1().pods("default");
    let asked = || std::mem::take(&mut *switching.asked.lock().unwrap());
    let answer = |answers: Vec<Result<DuplexStream, u16>>| *switching.answers.lock().unwrap() = answers.into();

    let (client, mut peer) = pair();
    answer(vec![Err(400), Ok(client)]);
    let process = pods.exec("web", &ExecOptions::new(["true"])).await.unwrap();
    assert_eq!(asked(), ["GET websocket", "POST SPDY/3.1"]);
    assert_eq!(peer.hear().await, Heard::Opened(1, "streamtype=error".to_owned()));
    for stream in [1, 3, 5] {
        peer.end(stream).await;
    }
    assert!(process.wait().await.unwrap().success());

    let (client, mut peer) = pair();
    answer(vec![Err(500), Ok(client)]);
    let _forward = pods.port_forward("web", &[80]).await.unwrap();
    assert_eq!(asked(), ["GET websocket", "POST SPDY/3.1"]);
    assert!(matches!(peer.hear().await, Heard::Opened(1, _)));

    for code in [403, 404, 405, 501] {
        let (client, mut peer) = pair();
        answer(vec![Err(code), Ok(client)]);
        let _process = pods.attach("web", &AttachOptions::default()).await.unwrap();
        assert_eq!(asked(), ["GET websocket", "POST SPDY/3.1"], "{code}");
        assert!(matches!(peer.hear().await, Heard::Opened(1, _)));
    }

    let (other, _) = pair();
    let (client, mut peer) = pair();
    answer(vec![Ok(other), Ok(client)]);
    let _process = pods.exec("web", &ExecOptions::new(["true"])).await.unwrap();
    assert_eq!(asked(), ["GET websocket", "POST SPDY/3.1"], "it agreed to something that nobody asked for");
    assert!(matches!(peer.hear().await, Heard::Opened(1, _)));

    answer(vec![Err(403), Err(503)]);
    let error = pods.attach("web", &AttachOptions::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Status(status) if status.code == Some(503)), "the last word counts: {error:?}");
    assert_eq!(asked(), ["GET websocket", "POST SPDY/3.1"]);

    for code in [401, 409, 422, 429] {
        answer(vec![Err(code)]);
        let error = pods.exec("web", &ExecOptions::new(["true"])).await.unwrap_err();
        assert!(matches!(&error, Error::Status(status) if status.code == Some(code.into())), "{error:?}");
        assert_eq!(asked(), ["GET websocket"], "no protocol changes that");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_with_a_broken_body_keeps_its_code() {
    // RX-1
    for (words, seconds) in [(Words::Cut, 0), (Words::Endless, 10)] {
        let switching = Switching { words, ..Switching::default() };
        let pods = Client::over(switching.clone()).core_v1().pods("default");
        let (client, mut peer) = pair();
        *switching.answers.lock().unwrap() = vec![Err(403), Ok(client), Err(429)].into();
        let start = Instant::now();
        let attached = timeout(Duration::from_secs(60), pods.attach("web", &AttachOptions::default())).await;
        let _process = attached.expect("it ends").expect("SPDY is asked for");
        assert!(matches!(peer.hear().await, Heard::Opened(1, _)));
        assert_eq!(start.elapsed().as_secs(), seconds);
        let error = pods.exec("web", &ExecOptions::new(["true"])).await.unwrap_err();
        assert!(error.is_too_many_requests(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_the_client_hold_for_processes_and_ports() {
    // RC-2, RX-1
    let client = Client::over(Switching::default());
    let limit = Duration::from_secs(5);
    for client in [client.clone().request_timeout(limit), client.answer_timeout(limit).request_timeout(limit * 3)] {
        let (pods, start) = (client.core_v1().pods("default"), Instant::now());
        let started = timeout(limit * 10, pods.exec("web", &ExecOptions::new(["true"]))).await.expect("it ends");
        assert!(started.unwrap_err().is_timeout());
        assert_eq!(start.elapsed(), limit);
        let forwarded = timeout(limit * 10, pods.port_forward("web", &[80])).await.expect("it ends");
        assert!(forwarded.unwrap_err().is_timeout());
        assert_eq!(start.elapsed(), limit * 2);
    }
}

#[tokio::test]
async fn an_unread_port_does_not_block_others() {
    // PF-1: in Go all ports share one connection, which waits for the slowest reader.
    let switching = Switching::default();
    let pods = Client::over(switching.clone()).core_v1().pods("default");
    assert!(matches!(pods.port_forward("web", &[]).await, Err(Error::InvalidRequest(_))));
    let ((web, mut web_peer), (database, mut database_peer)) = (pair(), pair());
    *switching.answers.lock().unwrap() = [Err(400), Ok(web), Err(400), Ok(database)].into();
    let mut forward = pods.port_forward("web", &[80, 5432]).await.unwrap();
    let (unread, mut read) = (forward.take(0).unwrap(), forward.take(1).unwrap());
    for (peer, port) in [(&mut web_peer, 80), (&mut database_peer, 5432)] {
        assert_eq!(peer.hear().await, Heard::Opened(1, format!("streamtype=error port={port} requestid=0")));
    }
    // More than all buffers in between.
    let flood = tokio::spawn(async move {
        for _ in 0..300 {
            web_peer.say(3, &[0; 10_000]).await;
        }
    });
    database_peer.say(3, b"rows").await;
    let mut answer = [0; 4];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"rows");
    assert!(!flood.is_finished(), "nobody has taken what the other port says");
    flood.abort();
    database_peer.say(1, b"nobody listens on 5432").await;
    let error = forward.wait().await.unwrap_err();
    assert!(matches!(&error, RemoteError::Refused(words) if words == "nobody listens on 5432"), "{error:?}");
    drop(unread);
}
