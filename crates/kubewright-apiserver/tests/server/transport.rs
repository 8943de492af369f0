//! Sockets, tokens and certificates.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use kubewright_apiserver::{ApiServer, StartError, StaticTokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::client::{CONFIG_MAPS, Client};

#[tokio::test]
async fn plain_http_without_tokens_is_the_administrators() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).plain_http().start().await.expect("a free port");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    let mut client = Client::over(socket).await;
    assert_eq!(client.call("GET", CONFIG_MAPS, "").await.0, 200);
    // Requests from web pages are rejected.
    for headers in [&[("host", "localhost"), ("origin", "https://evil.example")][..], &[("host", "evil.example")]] {
        let mut request = Request::builder().uri(CONFIG_MAPS);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), 403);
        let _ = http_body_util::BodyExt::collect(response.into_body()).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn plain_http_with_static_tokens_requires_a_token() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let tokens = StaticTokens::from_csv("s3cret,jane,1\nadmin,root,2,system:masters").expect("two lines");
    let server = ApiServer::in_memory().listen(address).plain_http().tokens(tokens).start().await.expect("a free port");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    let mut client = Client::over(socket).await;
    assert_eq!(client.call("GET", CONFIG_MAPS, "").await.0, 403, "an anonymous caller");
    for (token, code) in [("admin", 200), ("s3cret", 403), ("wrong", 401)] {
        let request = Request::builder().uri(CONFIG_MAPS).header("host", "test");
        let request = request.header("authorization", format!("Bearer {token}"));
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), code);
        let _ = http_body_util::BodyExt::collect(response.into_body()).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn plain_http_listens_only_on_loopback_by_default() {
    let everywhere = "0.0.0.0:0".parse().expect("an address");
    let refused = ApiServer::in_memory().listen(everywhere).plain_http().start().await.expect_err("a risk");
    assert!(matches!(refused, StartError::PlainHttpBeyondLoopback { .. }), "{refused}");
}

#[tokio::test]
async fn the_kubeconfig_of_a_tls_server_works_with_kubectl() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).start().await.expect("a free port");
    let kubeconfig = server.kubeconfig();
    for part in
        ["server: https://127.0.0.1:", "certificate-authority-data: ", "client-certificate-data: ", "client-key-data: "]
    {
        assert!(kubeconfig.contains(part), "{part} is missing");
    }
    assert!(!format!("{server:?}").contains("key"));
}

#[tokio::test]
async fn plain_http_on_a_tls_port_gets_an_error() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).start().await.expect("a free port");
    let mut socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    socket.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it listens");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("it answers in words");
    assert!(answer.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "{answer}");
}

#[tokio::test]
async fn preloaded_objects_are_visible_immediately() {
    let documents = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    let server = ApiServer::in_memory().preload(documents).start().await.expect("both are fine");
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("GET", "/api/v1/namespaces/shop/configmaps/a", "").await.0, 200);
    let refused = ApiServer::in_memory().preload("{apiVersion: v1, kind: Nothing}").start().await;
    assert!(refused.is_err_and(|error| error.to_string().contains("Nothing")));
}

#[tokio::test]
async fn a_client_with_a_large_body_receives_the_error() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).plain_http().start().await.expect("a free port");
    // The body is larger than the socket buffers, and the client reads only after sending all of
    // it.
    let body = vec![b' '; 64 << 20];
    let length = format!("content-length: {}\r\n\r\n", body.len());
    let chunk = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    for (framing, end) in [(length, ""), (chunk, "\r\n0\r\n\r\n")] {
        let mut socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
        let head =
            format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{framing}");
        socket.write_all(head.as_bytes()).await.expect("it listens");
        socket.write_all(&body).await.expect("it reads on");
        socket.write_all(end.as_bytes()).await.expect("it reads on");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("it is not reset");
        assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
        assert!(
            answer.contains("\r\nconnection: close\r\n") && answer.contains("\"RequestEntityTooLarge\""),
            "{answer}"
        );
    }
    server.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dead_clients_are_detected_by_keep_alive() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = ApiServer::in_memory().listen(address).plain_http().start().await.expect("a free port");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    let port = socket.local_addr().expect("it is connected").port();
    let mut client = Client::over(socket).await;
    assert_eq!(client.call("GET", "/healthz", "").await.0, 200);
    // The socket's timer in `/proc`: 2 means keep-alive. Lines are `slot: local remote state queues
    // timer:when …`.
    let connections = std::fs::read_to_string("/proc/net/tcp").expect("this is Linux");
    let of_server = connections.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|columns| {
        columns.get(2).is_some_and(|remote| remote.ends_with(&format!(":{port:04X}"))) && columns[3] == "01"
    });
    let timer = of_server.expect("it is there")[5].to_owned();
    assert!(timer.starts_with("02:"), "{timer}");
}

#[tokio::test(start_paused = true)]
async fn idle_http1_connections_are_kept_as_long_as_by_gos_servers() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut stream = server.connect();
    let mut answer = [0; 1024];
    for rest in [0, 85] {
        tokio::time::sleep(Duration::from_secs(rest)).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it is open");
        let read = stream.read(&mut answer).await.expect("it is open");
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "after {rest} s: {:?}", &answer[..read]);
    }
    let start = Instant::now();
    assert_eq!(stream.read(&mut answer).await.expect("it ends in order"), 0);
    assert!((90..100).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}
