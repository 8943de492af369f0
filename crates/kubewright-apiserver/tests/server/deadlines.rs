//! Deadlines of connections, requests and responses, and the order of the checks before a body is
//! read.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer, StaticTokens};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{CONFIG_MAPS, Client, config_map};

/// A server on which `jane` has no rights.
async fn server() -> RunningServer {
    let tokens = StaticTokens::from_csv("s3cret,jane,1\nadmin,root,2,system:masters").expect("two lines");
    ApiServer::in_memory().tokens(tokens).start().await.expect("nothing can fail without a socket")
}

fn head(token: &str, path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{more}\r\n")
}

/// Reads the head of the next response, and possibly a part of its body.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    read_until(stream, "\r\n\r\n").await
}

/// Reads until the text arrives.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), last: &str) -> String {
    let mut all = Vec::new();
    while !all.windows(last.len()).any(|bytes| bytes == last.as_bytes()) {
        let read = stream.read_buf(&mut all).await.expect("the connection is not reset");
        assert!(read > 0, "the connection was closed after {:?}", String::from_utf8_lossy(&all));
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_rights_is_refused_before_the_body_is_read() {
    let server = server().await;
    for (token, code) in [("wrong", "401"), ("s3cret", "403")] {
        // The second body is too large, and the third has an unsupported media type.
        for more in [
            "content-length: 3000000\r\n",
            "content-length: 67108864\r\n",
            "content-length: 3000000\r\ncontent-type: text/plain\r\n",
            "transfer-encoding: chunked\r\n",
        ] {
            let mut stream = server.connect();
            let start = Instant::now();
            stream.write_all(head(token, CONFIG_MAPS, more).as_bytes()).await.expect("there is room");
            let response = read_head(&mut stream).await;
            assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{token} {more} {response}");
            assert!(start.elapsed() < Duration::from_secs(5), "{token} {more} {:?}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn over_http2_an_unauthorized_request_is_rejected_before_its_body_is_read() {
    let server = server().await;
    let (sender, connection) = h2::client::handshake(server.connect()).await.expect("the server answers");
    tokio::spawn(connection);
    for (token, code) in [("wrong", 401), ("s3cret", 403)] {
        let mut sender = sender.clone().ready().await.expect("the connection is open");
        let request = Request::post(format!("http://test{CONFIG_MAPS}"));
        let request = request.header("authorization", format!("Bearer {token}")).body(()).expect("a valid request");
        let (response, _body) = sender.send_request(request, false).expect("a stream is free");
        let response = timeout(Duration::from_secs(5), response).await.expect("it does not wait for the body");
        assert_eq!(response.expect("the server answers").status().as_u16(), code);
    }
}

#[tokio::test]
async fn a_connection_survives_the_refusal_of_a_small_body() {
    let server = server().await;
    let mut client = Client::over(server.connect()).await;
    for _ in 0..3 {
        let request = Request::post(CONFIG_MAPS).header("host", "localhost").header("authorization", "Bearer s3cret");
        let response = client.send(request.body(Full::from("{}")).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), 403);
        assert!(!response.headers().contains_key("connection"), "{:?}", response.headers());
        response.into_body().collect().await.expect("the body ends");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_aborted_at_the_request_deadline() {
    let server = server().await;
    for (query, seconds) in [("", 60), ("?timeout=2s", 2), ("?timeout=0s", 60), ("?timeout=10m", 60)] {
        let mut stream = server.connect();
        let more = "content-length: 1000\r\ncontent-type: application/json\r\n";
        stream.write_all(head("admin", &format!("{CONFIG_MAPS}{query}"), more).as_bytes()).await.expect("room");
        let start = Instant::now();
        let (mut reading, mut writing) = tokio::io::split(stream);
        let trickle = async {
            while writing.write_all(b" ").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
        };
        let response = tokio::select! {
            response = read_until(&mut reading, "\"code\":") => response,
            () = trickle => unreachable!("it never ends"),
        };
        assert!(response.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{response}");
        let text = "Timeout: request did not complete within the allotted timeout";
        assert!(response.contains(text) && response.contains("\"reason\":\"Timeout\""), "{response}");
        assert_eq!(start.elapsed().as_secs().abs_diff(seconds), 0, "{query}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_the_query_bounds_the_request() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut client = Client::over(server.connect()).await;
    let start = Instant::now();
    // Without a timeout the server would wait 3 s for this version.
    let path = format!("{CONFIG_MAPS}?resourceVersion=999999&timeout=1s");
    let (code, status) = client.call("GET", &path, "").await;
    assert_eq!(code, 504);
    let message = crate::client::text(&status, "message");
    assert_eq!(message, "Timeout: request did not complete within the allotted timeout");
    assert_eq!(start.elapsed().as_secs(), 1);
    // kube-apiserver reads the parameter before authentication, and ignores it for watches.
    let invalid = head("wrong", &format!("{CONFIG_MAPS}?timeout=soon"), "content-length: 0\r\n");
    let mut stream = server.connect();
    stream.write_all(invalid.as_bytes()).await.expect("there is room");
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 400 "));
    let watch = format!("GET {CONFIG_MAPS}?watch=1&timeout=soon HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut stream = server.connect();
    stream.write_all(watch.as_bytes()).await.expect("there is room");
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn the_first_bytes_of_a_connection_have_one_time_limit_together() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut stream = server.connect();
    let start = Instant::now();
    for byte in b"PRI * HTTP/2.0\r\n\r\n" {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_secs(20)).await;
    }
    assert!(start.elapsed() <= Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_head_is_aborted() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut stream = server.connect();
    let start = Instant::now();
    stream.write_all(b"GET /livez HTTP/1.1\r\nx: ").await.expect("there is room");
    while stream.write_all(b"x").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
        assert!(start.elapsed() < Duration::from_secs(120), "the connection is still open");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_tls_handshake_times_out() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).start().await.expect("a free port");
    let mut socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    let start = Instant::now();
    assert_eq!(socket.read(&mut [0]).await.expect("it is closed"), 0);
    assert!(start.elapsed() <= Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn bodies_in_memory_have_a_common_limit() {
    let server = ApiServer::in_memory().max_body_memory(100_000).start().await.expect("nothing can fail");
    let mut first = server.connect();
    let more = "content-length: 60000\r\ncontent-type: application/json\r\n";
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
    first.write_all(head.as_bytes()).await.expect("there is room");
    first.write_all(&[b' '; 59_999]).await.expect("there is room");
    sleep(Duration::from_secs(1)).await;
    let mut client = Client::over(server.connect()).await;
    let large = config_map("large", &format!(r#","annotations":{{"large":"{}"}}"#, "x".repeat(60_000)));
    let request = Request::post(CONFIG_MAPS).header("host", "localhost").header("content-type", "application/json");
    let response = client.send(request.body(Full::from(large.clone())).expect("a valid request")).await;
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"1".parse().expect("text")));
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("small", "")).await.0, 201, "there is room for it");
    drop(first);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &large).await.0, 201, "the first has left");
}

#[tokio::test]
async fn large_request_heads_are_rejected() {
    let server = server().await;
    for (length, code) in [(100 << 10, "200"), (200 << 10, "431")] {
        let mut stream = server.connect();
        let more = format!("x-large: {}\r\n", "x".repeat(length));
        // The server stops reading at its limit.
        let _ = stream.write_all(head("admin", CONFIG_MAPS, &more).replace("POST", "GET").as_bytes()).await;
        let response = read_head(&mut stream).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{length}: {response}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backup_may_take_longer_than_other_requests() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    fill(&server, 100).await;
    let mut stream = server.connect();
    let request = "GET /kubewright/backup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("there is room");
    let (mut buffer, mut length) = (vec![0; 256 << 10], 0);
    while let read @ 1.. = stream.read(&mut buffer).await.expect("it is not reset") {
        length += read;
        sleep(Duration::from_secs(5)).await;
    }
    assert!(length > 100 * (64 << 10), "{length} bytes");
}

#[tokio::test]
async fn connections_beyond_the_limit_take_the_place_of_idle_ones() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).plain_http().max_connections(3);
    let server = server.start().await.expect("a free port");
    let connect = || async { TcpStream::connect(server.address().expect("it listens")).await.expect("it listens") };
    let mut watch = connect().await;
    let request = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    watch.write_all(request.as_bytes()).await.expect("it is open");
    read_head(&mut watch).await;
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(connect().await);
    }
    let mut client = Client::over(connect().await).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    for mut socket in silent.drain(..5) {
        let closed = timeout(Duration::from_secs(10), socket.read(&mut [0])).await;
        assert!(!matches!(closed.expect("it is closed"), Ok(1..)));
    }
    // The watch is the oldest connection, but it is not idle.
    assert!(watch.read(&mut [0; 100]).await.expect("it is open") > 0);
}
/// Creates config maps of 64 KiB each.
async fn fill(server: &RunningServer, count: usize) {
    let mut client = Client::over(server.connect()).await;
    let large = format!(r#","annotations":{{"large":"{}"}}"#, "x".repeat(64 << 10));
    for number in 0..count {
        let object = config_map(&format!("large-{number}"), &large);
        assert_eq!(client.call("POST", CONFIG_MAPS, &object).await.0, 201);
    }
}

/// The number of bytes until the connection ends, with or without an error.
async fn drain(mut stream: impl AsyncRead + Unpin) -> usize {
    let (mut buffer, mut total) = (vec![0; 64 << 10], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        total += read;
    }
    total
}

#[tokio::test(start_paused = true)]
async fn a_response_that_its_client_does_not_read_is_aborted() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    fill(&server, 40).await;
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        for (pause, is_whole) in [(20, true), (45, false)] {
            let mut stream = server.connect();
            let request = format!(
                "GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.expect("there is room");
            sleep(Duration::from_secs(pause)).await;
            let length = drain(stream).await;
            assert_eq!(length > 40 * (64 << 10), is_whole, "{accept}: {length} bytes after {pause} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_when_its_client_reads_again() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut stream = server.connect();
    let request = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("there is room");
    read_head(&mut stream).await;
    fill(&server, 40).await;
    sleep(Duration::from_secs(300)).await;
    let reading = timeout(Duration::from_secs(5), drain(stream)).await;
    assert!(reading.is_err(), "the watch has ended");
}

/// Uses a separate process, because other tests allocate memory, too.
#[cfg(target_os = "linux")]
#[test]
fn clients_that_do_not_read_a_list_share_its_memory() {
    let program = std::env::current_exe().expect("this test runs");
    let name = "deadlines::stalled_clients_in_a_process_of_their_own";
    let child = std::process::Command::new(program).args([name, "--exact", "--ignored"]).output().expect("it runs");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "started by the test above"]
async fn stalled_clients_in_a_process_of_their_own() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    fill(&server, 150).await;
    let before = resident();
    let mut stalled = Vec::new();
    for (accept, encoding) in [
        ("application/json", "identity"),
        ("application/json", "gzip"),
        ("application/json;pretty=1", "identity"),
        ("application/yaml", "identity"),
        ("application/vnd.kubernetes.protobuf", "identity"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "identity"),
    ] {
        for _ in 0..50 {
            let mut stream = server.connect();
            let request = format!(
                "GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\
                 accept-encoding: {encoding}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.expect("there is room");
            read_head(&mut stream).await;
            stalled.push(stream);
        }
    }
    sleep(Duration::from_secs(2)).await;
    let used = resident().saturating_sub(before);
    // The list has 9 MiB.
    assert!(used < 200 << 20, "{} MiB", used >> 20);
}

/// The resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}
