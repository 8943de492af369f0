//! exec and port-forward over WebSocket, on in-memory pipes.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::HeaderMap;
use kubewright_client::remote::{
    AttachOptions, ExecOptions, PortForward, PortListener, PortPair, Process, RemoteError, TerminalSize,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::script::Script;

type Server = WebSocketStream<DuplexStream>;

/// Both ends of an upgraded WebSocket connection.
async fn connection() -> (DuplexStream, Server) {
    let (client, server) = duplex(1 << 20);
    (client, WebSocketStream::from_raw_socket(server, Role::Server, None).await)
}

async fn say(server: &mut Server, channel: u8, bytes: &[u8]) {
    let message = [&[channel], bytes].concat();
    server.send(Message::Binary(message.into())).await.unwrap();
}

/// The next message that is no ping.
async fn hear(server: &mut Server) -> Bytes {
    loop {
        match server.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => return bytes,
            Message::Ping(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Bytes transferred in a full-duplex conversation.
pub const LONG: usize = 1 << 20;
/// Smaller than a message, so that neither side can send more than the other consumes.
pub const NARROW: usize = 1024;

/// Writes and reads [`LONG`] bytes concurrently.
pub async fn converse(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let (said, mut heard) = (vec![b'x'; LONG], Vec::new());
    let speaking = async {
        to.write_all(&said).await?;
        to.shutdown().await
    };
    let mut from = from.take(LONG as u64);
    let (spoken, listened) = tokio::join!(speaking, from.read_to_end(&mut heard));
    spoken.unwrap();
    assert_eq!(listened.unwrap(), LONG);
    assert!(heard == said);
}

/// Echoes channel 0 on another channel for a whole conversation.
async fn repeat(server: &mut Server, channel: u8) {
    let mut left = LONG;
    while left > 0 {
        let message = hear(server).await;
        assert_eq!(message[0], 0);
        left -= message.len() - 1;
        say(server, channel, &message[1..]).await;
    }
}

const SUCCESS: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
const EXIT_3: &[u8] =
    br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NonZeroExitCode",
    "message":"command terminated with exit code 3","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;

#[test]
fn an_upgrade_request_names_the_subprotocol_and_checks_the_response() {
    // RX-1
    let pods = Script::default().client().core_v1().pods("default");
    let options =
        ExecOptions::new(["sh", "-c", "echo a&b"]).attach(AttachOptions::default().container("c").stdin().tty());
    let (request, handshake) = pods.exec_request("web", &options).unwrap();
    assert_eq!(
        request.uri().to_string(),
        "/api/v1/namespaces/default/pods/web/exec?command=sh&command=-c&command=echo%20a%26b&container=c&stdin=true&stdout=true&tty=true"
    );
    let headers = request.headers();
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "v5.channel.k8s.io"),
    ] {
        assert_eq!(headers[name], value);
    }
    let mut answer = HeaderMap::new();
    assert!(handshake.finish(&answer).is_err());
    let accept = derive_accept_key(headers["sec-websocket-key"].as_bytes());
    answer.insert("sec-websocket-accept", accept.parse().unwrap());
    let error = handshake.finish(&answer).unwrap_err();
    assert_eq!(error.to_string(), "protocol violation by the server: the server does not speak v5.channel.k8s.io");
    answer.insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
    handshake.finish(&answer).unwrap();
    let (request, _) = pods.attach_request("web", &AttachOptions::default()).unwrap();
    assert_eq!(request.uri().to_string(), "/api/v1/namespaces/default/pods/web/attach?stderr=true&stdout=true");
}

#[tokio::test]
async fn a_process_reads_writes_and_ends_with_its_code() {
    // RX-1, RX-2
    let (client, mut server) = connection().await;
    let mut process = Process::over(client, &AttachOptions::default().stdin());
    let (mut stdin, mut stdout, mut stderr) =
        (process.stdin().unwrap(), process.stdout().unwrap(), process.stderr().unwrap());
    assert!(process.stdin().is_none(), "it was taken");
    let text = vec![b'x'; 100_000];
    let sent = text.clone();
    let writing = tokio::spawn(async move {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    loop {
        let message = hear(&mut server).await;
        match message[0] {
            0 => {
                assert!(message.len() <= (32 << 10) + 1, "no message is too large");
                received.extend_from_slice(&message[1..]);
            }
            255 => break assert_eq!(&message[1..], [0], "the end of what it reads"),
            other => panic!("channel {other}"),
        }
    }
    writing.await.unwrap();
    assert_eq!(received, text);
    say(&mut server, 9, b"a channel of the future").await;
    say(&mut server, 1, b"hello ").await;
    say(&mut server, 2, b"oops").await;
    say(&mut server, 1, b"world").await;
    say(&mut server, 3, EXIT_3).await;
    server.close(None).await.unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    stdout.read_to_string(&mut out).await.unwrap();
    stderr.read_to_string(&mut err).await.unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("hello world", "oops"));
    let exit = process.wait().await.unwrap();
    assert_eq!((exit.code(), exit.success()), (Some(3), false));
}

#[tokio::test]
async fn a_terminal_has_a_size_and_one_output() {
    // RX-1
    let (client, mut server) = connection().await;
    let mut process = Process::over(client, &AttachOptions::default().tty());
    assert!(process.stderr().is_none());
    process.resize(TerminalSize { width: 80, height: 24 });
    assert_eq!(hear(&mut server).await, &b"\x04{\"Width\":80,\"Height\":24}"[..]);
    say(&mut server, 3, SUCCESS).await;
    server.close(None).await.unwrap();
    assert!(process.wait().await.unwrap().success());
}

#[tokio::test]
async fn text_is_against_the_protocol_and_an_end_without_status_too() {
    // RX-2
    let (client, mut server) = connection().await;
    let process = Process::over(client, &AttachOptions::default());
    server.send(Message::Text("hello".into())).await.unwrap();
    assert!(matches!(process.wait().await, Err(RemoteError::Protocol(_))));

    let (client, mut server) = connection().await;
    let process = Process::over(client, &AttachOptions::default());
    server.close(None).await.unwrap();
    assert!(matches!(process.wait().await, Err(RemoteError::Protocol(_))));

    let (client, server) = connection().await;
    let process = Process::over(client, &AttachOptions::default());
    drop(server);
    let lost = process.wait().await.unwrap_err();
    assert!(matches!(lost, RemoteError::Disconnected(_)), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection_and_pings_keep_it() {
    // RX-1
    let (client, server) = connection().await;
    let start = Instant::now();
    let process = Process::over(client, &AttachOptions::default());
    let lost = process.wait().await.unwrap_err();
    assert!(matches!(lost, RemoteError::Disconnected(_)), "{lost}");
    assert_eq!(start.elapsed().as_secs(), 61);
    drop(server);

    let (client, mut server) = connection().await;
    let process = Process::over(client, &AttachOptions::default());
    let serving = tokio::spawn(async move {
        let mut pings = 0;
        let end = sleep(Duration::from_secs(600));
        tokio::pin!(end);
        loop {
            tokio::select! {
                message = server.next() => pings += usize::from(matches!(message, Some(Ok(Message::Ping(_))))),
                () = &mut end => break,
            }
        }
        say(&mut server, 3, SUCCESS).await;
        server.close(None).await.unwrap();
        pings
    });
    assert!(process.wait().await.unwrap().success());
    assert!((115..=120).contains(&serving.await.unwrap()), "one each five seconds");
}

#[tokio::test(start_paused = true)]
async fn process_output_is_read_while_input_is_written() {
    // RX-1
    let (client, server) = duplex(NARROW);
    let mut server = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
    let mut process = Process::over(client, &AttachOptions::default().stdin());
    let cat = tokio::spawn(async move {
        repeat(&mut server, 1).await;
        assert_eq!(hear(&mut server).await, &[255, 0][..]);
        say(&mut server, 3, SUCCESS).await;
        server.close(None).await.unwrap();
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
    let mut server = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
    let mut forward = PortForward::over(client, &[80]);
    let echo = tokio::spawn(async move {
        for channel in [0, 1] {
            say(&mut server, channel, &80u16.to_le_bytes()).await;
        }
        repeat(&mut server, 0).await;
        server
    });
    let (from, to) = split(forward.take(0).unwrap());
    converse(from, to).await;
    echo.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn writing_to_a_stalled_port_fails_eventually() {
    // RX-1
    let (client, server) = duplex(NARROW);
    let mut server = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
    let mut forward = PortForward::over(client, &[80]);
    let talking = tokio::spawn(async move {
        for channel in [0, 1] {
            say(&mut server, channel, &80u16.to_le_bytes()).await;
        }
        // The peer keeps sending.
        loop {
            say(&mut server, 0, b"x").await;
            sleep(Duration::from_secs(5)).await;
        }
    });
    let (mut from, mut to) = split(forward.take(0).unwrap());
    let reading = tokio::spawn(async move { from.read_to_end(&mut Vec::new()).await });
    let writing = async { while to.write_all(&[0; 1024]).await.is_ok() {} };
    timeout(Duration::from_secs(120), writing).await.expect("the write fails");
    talking.abort();
    let _ = reading.await;
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_keeps_its_connection() {
    // RX-1
    let (client, mut server) = connection().await;
    let mut process = Process::over(client, &AttachOptions::default());
    let serving = tokio::spawn(async move {
        say(&mut server, 1, &[b'x'; 100_000]).await;
        // The process is silent for six minutes; pings are answered.
        for _ in 0..72 {
            assert!(matches!(server.next().await, Some(Ok(Message::Ping(_)))));
        }
        say(&mut server, 3, SUCCESS).await;
        server.close(None).await.unwrap();
    });
    let mut stdout = process.stdout().unwrap();
    sleep(Duration::from_secs(300)).await;
    let mut heard = Vec::new();
    stdout.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard.len(), 100_000);
    assert!(process.wait().await.unwrap().success());
    serving.await.unwrap();
}

#[tokio::test]
async fn ports_of_a_pod_are_reached() {
    // PF-1
    let pods = Script::default().client().core_v1().pods("default");
    let (request, _) = pods.port_forward_request("web", &[80, 5432]).unwrap();
    assert_eq!(request.uri().to_string(), "/api/v1/namespaces/default/pods/web/portforward?ports=80%2C5432");
    assert!(pods.port_forward_request("web", &[]).is_err());

    let (client, mut server) = connection().await;
    let mut forward = PortForward::over(client, &[80, 5432]);
    let (mut web, mut database) = (forward.take(0).unwrap(), forward.take(1).unwrap());
    for (channel, port) in [(0, 80u16), (1, 80), (2, 5432), (3, 5432)] {
        say(&mut server, channel, &port.to_le_bytes()).await;
    }
    web.write_all(b"GET /").await.unwrap();
    assert_eq!(hear(&mut server).await, &b"\x00GET /"[..]);
    database.write_all(b"select").await.unwrap();
    assert_eq!(hear(&mut server).await, &b"\x02select"[..]);
    web.shutdown().await.unwrap();
    say(&mut server, 0, b"200").await;
    let mut answer = [0; 3];
    web.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"200", "what is no longer written to can be read");
    say(&mut server, 3, b"connection refused").await;
    let error = forward.wait().await.unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
}

#[tokio::test]
async fn a_lost_pod_is_reported() {
    // PF-1
    let (client, server) = connection().await;
    let forward = PortForward::over(client, &[80]);
    drop(server);
    assert_eq!(forward.wait().await.unwrap_err().to_string(), "lost connection to pod");
}

#[test]
fn ports_are_written_in_three_ways() {
    // PF-1
    for (text, want) in [
        ("5000", Some((5000, 5000))),
        ("8888:5000", Some((8888, 5000))),
        (":5000", Some((0, 5000))),
        ("0:5000", Some((0, 5000))),
        ("5000:", None),
        ("0", None),
        ("a:b", None),
        ("70000", None),
        ("1:2:3", None),
    ] {
        let got = text.parse::<PortPair>().ok().map(|pair| (pair.local, pair.remote));
        assert_eq!(got, want, "{text}");
    }
}

#[tokio::test]
async fn a_port_of_this_machine_leads_to_one_of_a_pod() {
    // PF-1
    let connect = |port: u16| async move {
        let (client, mut server) = connection().await;
        tokio::spawn(async move {
            for channel in [0, 1] {
                say(&mut server, channel, &port.to_le_bytes()).await;
            }
            let asked = hear(&mut server).await;
            say(&mut server, 0, &[b"you said ", &asked[1..]].concat()).await;
            server.close(None).await.unwrap();
        });
        Ok(PortForward::over(client, &[port]))
    };
    let listener = PortListener::bind(&["localhost"], &[":5000".parse().unwrap()], connect).await.unwrap();
    assert!(!listener.addresses().is_empty());
    for (address, remote) in listener.addresses().to_vec() {
        assert_eq!(remote, 5000);
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "you said hello");
    }
    let refused = PortListener::bind(&["192.0.2.1"], &[":5000".parse().unwrap()], connect).await;
    assert!(refused.is_err(), "an address that is not ours");
    let taken = listener.addresses()[0].0;
    drop(listener);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(tokio::net::TcpStream::connect(taken).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn of_the_two_addresses_of_this_machine_one_is_enough() {
    // PF-1
    let connect = |_: u16| async { Err::<PortForward, _>(RemoteError::Protocol("nobody asks".to_owned())) };
    let first = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = first.local_addr().unwrap().port();
    let pair = [format!("{port}:80").parse().unwrap()];
    // Skipped without IPv6.
    if let Ok(second) = tokio::net::TcpListener::bind(("::1", port)).await {
        assert!(PortListener::bind(&["localhost"], &pair, connect).await.is_err(), "both are taken");
        drop(second);
        let listener = PortListener::bind(&["localhost"], &pair, connect).await.unwrap();
        assert_eq!(listener.addresses(), [(format!("[::1]:{port}").parse().unwrap(), 80)]);
    }
    assert!(PortListener::bind(&["127.0.0.1"], &pair, connect).await.is_err(), "all others have to be there");
    drop(first);
    let listener = PortListener::bind(&["localhost"], &pair, connect).await.unwrap();
    assert_eq!(listener.addresses()[0], (format!("127.0.0.1:{port}").parse().unwrap(), 80));
}
