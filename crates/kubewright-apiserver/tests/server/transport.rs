//! Sockets, tokens and certificates.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use kubewright_apiserver::{ApiServer, Tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{CONFIG_MAPS, Client};

#[tokio::test]
async fn plain_http_is_the_administrators() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let tokens = Tokens::from_csv("s3cret,jane,1").expect("a line");
    let server = ApiServer::in_memory().listen(address).plain_http().tokens(tokens).start().await.expect("a free port");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it listens");
    let mut client = Client::over(socket).await;
    assert_eq!(client.call("GET", CONFIG_MAPS, "").await.0, 200);
    // A page that the user looks at is not the user.
    for headers in [&[("host", "localhost"), ("origin", "https://evil.example")][..], &[("host", "evil.example")]] {
        let mut request = Request::builder().uri(CONFIG_MAPS);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), 403);
        let _ = http_body_util::BodyExt::collect(response.into_body()).await;
    }
    for (token, code) in [("s3cret", 403), ("wrong", 401)] {
        let request = Request::builder().uri(CONFIG_MAPS).header("host", "test");
        let request = request.header("authorization", format!("Bearer {token}"));
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), code);
        let _ = http_body_util::BodyExt::collect(response.into_body()).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn with_tls_the_kubeconfig_has_what_kubectl_needs() {
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
async fn who_forgets_tls_is_told() {
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
async fn preloaded_objects_are_there_at_once() {
    let documents = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    let server = ApiServer::in_memory().preload(documents).start().await.expect("both are fine");
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("GET", "/api/v1/namespaces/shop/configmaps/a", "").await.0, 200);
    let refused = ApiServer::in_memory().preload("{apiVersion: v1, kind: Nothing}").start().await;
    assert!(refused.is_err_and(|error| error.to_string().contains("Nothing")));
}
