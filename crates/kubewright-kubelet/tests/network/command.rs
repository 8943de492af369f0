//! exec and attach.

use futures_util::{SinkExt, StreamExt};
use kubewright_client::remote::{AttachOptions, Process};
use kubewright_kubelet::ClusterNetwork;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::{Cluster, now, upgraded};

/// The transports and protocols that clients use.
const WAYS: [(&str, &str); 4] = [
    ("websocket", "v5.channel.k8s.io"),
    ("websocket", "v4.channel.k8s.io"),
    ("SPDY/3.1", "v4.channel.k8s.io"),
    ("SPDY/3.1", "v3.channel.k8s.io"),
];

async fn process(network: &ClusterNetwork, way: (&str, &str), path: &str, options: &AttachOptions) -> Process {
    let flags = [("input", options.stdin), ("output", options.stdout), ("error", options.stderr), ("tty", options.tty)];
    let flags: String = flags.iter().filter(|(_, on)| *on).map(|(name, _)| format!("&{name}=1")).collect();
    let (protocol, stream) = upgraded(network, &format!("{path}{flags}"), way.0, way.1).await.expect("an upgrade");
    assert_eq!(protocol, way.1);
    if way.0 == "websocket" { Process::over(stream, options) } else { Process::over_spdy(stream, way.1, options) }
}

/// Runs a script with an input. Returns both outputs and the exit code, which older protocols
/// report as a text.
async fn shell(
    network: &ClusterNetwork,
    way: (&str, &str),
    script: &str,
    input: &[u8],
) -> (Vec<u8>, Vec<u8>, Option<i32>) {
    let script: String = script.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let options = if input.is_empty() { AttachOptions::default() } else { AttachOptions::default().stdin() };
    let path = format!("/exec/ns/web/main?command=sh&command=-c&command={script}");
    let mut process = process(network, way, &path, &options).await;
    let (mut output, mut error) = (Vec::new(), Vec::new());
    let (stdin, mut stdout, mut stderr) = (process.stdin(), process.stdout().unwrap(), process.stderr().unwrap());
    let writing = async move {
        if let Some(mut stdin) = stdin {
            stdin.write_all(input).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
    };
    let (_, read, also_read) = tokio::join!(writing, stdout.read_to_end(&mut output), stderr.read_to_end(&mut error));
    read.and(also_read).unwrap();
    let code = match process.wait().await {
        Ok(status) => status.code(),
        Err(error) => error.to_string().rsplit(' ').next().and_then(|code| code.parse().ok()),
    };
    (output, error, code)
}

/// Runs a script to its end.
pub(crate) async fn run(network: &ClusterNetwork, script: &str) {
    let (_, error, code) = shell(network, WAYS[0], script, b"").await;
    assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&error));
}

#[tokio::test]
async fn commands_answer_over_every_protocol() {
    let network = Cluster::default().run("web", "{}", "");
    for way in WAYS {
        let (output, error, code) = shell(&network, way, "echo out; echo err >&2; exit 3", b"").await;
        assert_eq!((&output[..], &error[..]), (&b"out\n"[..], &b"err\n"[..]), "{way:?}");
        assert_eq!(code, Some(3), "{way:?}");
        assert_eq!(shell(&network, way, "true", b"").await.2, Some(0), "{way:?}");
    }
}

#[tokio::test]
async fn what_is_copied_in_comes_out() {
    let network = Cluster::default().run("web", "{}", "");
    let large: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    // Version 4 over WebSocket cannot signal the end of the input.
    for way in [WAYS[0], WAYS[2]] {
        assert_eq!(shell(&network, way, "cat > /tmp/large; wc -c < /tmp/large", &large).await.0, b"1000000\n");
        let (archive, _, code) = shell(&network, way, "tar cf - -C /tmp large", b"").await;
        assert_eq!(code, Some(0));
        let (copy, error, code) = shell(&network, way, "tar xmf - -C /root && cat /root/large", &archive).await;
        assert!(copy == large && error.is_empty() && code == Some(0), "{way:?}: {}", copy.len());
    }
}

#[tokio::test]
async fn a_terminal_runs_an_interactive_shell() {
    let network = Cluster::default().run("web", "{}", r#","command":["sh"],"stdin":true,"tty":true"#);
    for (way, path) in [(WAYS[0], "/attach/ns/web/main?x"), (WAYS[2], "/exec/ns/web/main?command=/bin/sh")] {
        let options = AttachOptions::default().stdin().tty();
        let mut process = process(&network, way, path, &options).await;
        let (mut stdin, mut stdout) = (process.stdin().unwrap(), process.stdout().unwrap());
        stdin.write_all(b"cd /tmp\rexit 5\r").await.unwrap();
        let mut screen = String::new();
        stdout.read_to_string(&mut screen).await.unwrap();
        assert!(screen.contains("/ # ") && screen.contains("/tmp # ") && screen.contains("exit 5\r\n"), "{screen:?}");
        assert_eq!(process.wait().await.unwrap().code(), Some(5));
    }
}

#[tokio::test]
async fn sessions_that_cannot_start_say_why() {
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", "");
    let refused = async |path: &str, protocol: &str| match upgraded(&network, path, "websocket", protocol).await {
        Ok(_) => panic!("{path} is accepted"),
        Err(refusal) => refusal,
    };
    let v5 = "v5.channel.k8s.io";
    assert_eq!(refused("/exec/ns/gone/main?command=ls&output=1", v5).await, "404: pod does not exist");
    assert_eq!(refused("/exec/ns/web/other?command=ls&output=1", v5).await, "500: container not found (\"other\")");
    let nothing = "400: you must specify at least 1 of stdin, stdout, stderr";
    assert_eq!(refused("/exec/ns/web/main?command=ls", v5).await, nothing);
    assert!(refused("/exec/ns/web/main?command=ls&output=1", "v9").await.starts_with("403: unable to upgrade"));
    let options = AttachOptions::default();
    let unknown = process(&network, WAYS[0], "/exec/ns/web/main?command=nginx", &options).await;
    let status = unknown.wait().await.unwrap();
    let message = status.status().message.clone().unwrap_or_default();
    assert!(message.contains(r#"exec: "nginx": executable file not found in $PATH"#), "{message}");
    cluster.set("web", "{}", "", r#"{"waiting":{"reason":"CrashLoopBackOff"}}"#, 1);
    assert_eq!(refused("/exec/ns/web/main?command=ls&output=1", v5).await, "500: container not found (\"main\")");
}

#[tokio::test(start_paused = true)]
async fn attach_follows_the_output_of_a_container() {
    let cluster = Cluster::default();
    let container = r#","command":["sh","-c","for i in 1 2 3; do sleep 2; echo $i; done; exit 4"]"#;
    let network = cluster.run("web", "{}", container);
    let mut process = process(&network, WAYS[0], "/attach/ns/web/main?x", &AttachOptions::default()).await;
    let mut stdout = process.stdout().unwrap();
    let mut first = [0; 4];
    stdout.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"1\n2\n");
    let ended = now();
    let started = ended.checked_sub(std::time::Duration::from_secs(6)).unwrap();
    let state = format!(r#"{{"terminated":{{"exitCode":4,"startedAt":"{started}","finishedAt":"{ended}"}}}}"#);
    cluster.set("web", "{}", container, &state, 0);
    drop(stdout);
    assert_eq!(process.wait().await.unwrap().code(), Some(4));
}

#[tokio::test]
async fn clients_without_binary_messages_have_base64_channels() {
    let network = Cluster::default().run("web", "{}", "");
    let path = "/exec/ns/web/main?input=1&output=1&error=1&command=sh&command=-c&command=read%20x%3B%20echo%20got%20%24x%3B%20exit%204";
    for protocol in ["v4.base64.channel.k8s.io", "base64.channel.k8s.io"] {
        let (negotiated, stream) = upgraded(&network, path, "websocket", protocol).await.unwrap();
        assert_eq!(negotiated, protocol);
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        // `hello` and the end of a line, to standard input.
        socket.send(Message::text("0aGVsbG8K")).await.unwrap();
        let mut texts = Vec::new();
        while let Some(Ok(Message::Text(text))) = socket.next().await {
            texts.push(text.to_string());
        }
        // The first message says that the connection is established.
        assert_eq!(texts[..2], ["1", "1Z290IGhlbGxvCg=="], "{protocol}");
        assert_eq!((texts.len(), &texts[2][..1]), (3, "3"), "{protocol}");
    }
}
