//! Proxies.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use kubewright_net::config::{EnvironmentVariables, ProxyChoice};
use kubewright_net::transport::{Transport, TransportErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::requests::{ask, get};
use crate::scripted::{Authority, Scripted, echo};

#[derive(Clone, Copy)]
enum Kind {
    Http,
    Https,
    Socks5,
}

/// A proxy that forwards everything to one server, and records requests.
struct Proxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start(kind: Kind, authority: &Authority, target: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, tls) = (Arc::clone(&asked), TlsAcceptor::from(authority.server(&authority.sign("proxy"))));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (log, tls) = (Arc::clone(&log), tls.clone());
                tokio::spawn(async move {
                    match kind {
                        Kind::Http => tunnel(socket, target, &log).await,
                        Kind::Https => match tls.accept(socket).await {
                            Ok(stream) => tunnel(stream, target, &log).await,
                            Err(_) => None,
                        },
                        Kind::Socks5 => socks(socket, target, &log).await,
                    }
                });
            }
        });
        Proxy { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn tunnel(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    target: std::net::SocketAddr,
    log: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    log.lock().expect("no panic").push(head.clone());
    if head.contains("forbidden") {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.ok()?;
        return None;
    }
    let mut server = TcpStream::connect(target).await.ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\nvia: test\r\n\r\n").await.ok()?;
    copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

async fn socks(mut client: TcpStream, target: std::net::SocketAddr, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut greeting = vec![0; 2];
    client.read_exact(&mut greeting).await.ok()?;
    let mut methods = vec![0; usize::from(greeting[1])];
    client.read_exact(&mut methods).await.ok()?;
    let mut user = String::new();
    if methods.contains(&2) {
        client.write_all(&[5, 2]).await.ok()?;
        client.read_u8().await.ok()?;
        for _ in 0..2 {
            let mut text = vec![0; usize::from(client.read_u8().await.ok()?)];
            client.read_exact(&mut text).await.ok()?;
            user.push_str(&String::from_utf8_lossy(&text));
            user.push(':');
        }
        client.write_all(&[1, u8::from(user.contains("wrong"))]).await.ok()?;
    } else {
        client.write_all(&[5, 0]).await.ok()?;
    }
    let mut head = [0; 4];
    client.read_exact(&mut head).await.ok()?;
    let host = match head[3] {
        3 => {
            let mut name = vec![0; usize::from(client.read_u8().await.ok()?)];
            client.read_exact(&mut name).await.ok()?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => std::net::Ipv4Addr::from(client.read_u32().await.ok()?).to_string(),
    };
    let port = client.read_u16().await.ok()?;
    log.lock().expect("no panic").push(format!("{user}{host}:{port}"));
    if host.contains("forbidden") {
        client.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok()?;
        return None;
    }
    let mut server = TcpStream::connect(target).await.ok()?;
    client.write_all(&[5, 0, 0, 3, 1, b'x', 0, 0]).await.ok()?;
    copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

// TR-1
#[tokio::test]
async fn a_server_is_reached_through_each_kind_of_proxy() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("cluster.example"));
    let server = Scripted::start(Some(tls), |request, _| async move { echo(&request) }).await;
    for (kind, url, expected) in [
        (Kind::Http, "http://jane:p%40ss@localhost", "Proxy-Authorization: Basic amFuZTpwQHNz"),
        (Kind::Http, "localhost", "CONNECT cluster.example:6443 HTTP/1.1"),
        (Kind::Https, "https://localhost", "CONNECT cluster.example:6443 HTTP/1.1"),
        (Kind::Socks5, "socks5://127.0.0.1", "cluster.example:6443"),
        (Kind::Socks5, "socks5h://jane:p%40ss@127.0.0.1", "jane:p@ss:cluster.example:6443"),
    ] {
        let proxy = Proxy::start(kind, &authority, server.address).await;
        let mut config = server.config(Some(&authority));
        // Only the proxy can resolve this name.
        config.server = "https://cluster.example:6443".parse().expect("a URL");
        config.credentials.token = Some("s3cret".into());
        config.proxy = ProxyChoice::Url(format!("{url}:{}", proxy.port).into());
        let (status, heard) = ask(&config.connect().expect("fine"), get("/")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(heard.starts_with("HTTP/2.0") && heard.contains("Bearer s3cret"), "{heard}");
        let asked = proxy.asked().concat();
        assert!(asked.contains(expected) && !asked.contains("s3cret"), "{asked}");
    }
}

// TR-1
#[tokio::test]
async fn a_proxy_that_refuses_is_an_error_without_its_password() {
    let authority = Authority::new();
    let address = "127.0.0.1:1".parse().expect("an address");
    for (kind, url, host) in [
        (Kind::Http, "http://u:s3cret@localhost", "forbidden.example"),
        (Kind::Socks5, "socks5://u:s3cret@localhost", "forbidden.example"),
        (Kind::Socks5, "socks5://wrong:s3cret@localhost", "cluster.example"),
        (Kind::Socks5, "http://localhost", "cluster.example"),
    ] {
        let proxy = Proxy::start(kind, &authority, address).await;
        let mut config = crate::scripted::config(&format!("https://{host}"), Some(&authority));
        config.proxy = ProxyChoice::Url(format!("{url}:{}", proxy.port).into());
        config.connect_timeout = std::time::Duration::from_secs(2);
        let error = config.connect().expect("fine").send(get("/")).await.expect_err("it refuses");
        assert_eq!(error.kind(), TransportErrorKind::Connect);
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    for bad in ["ftp://proxy", "http://", "s3cret proxy"] {
        let mut config = crate::scripted::config("https://server", Some(&authority));
        config.proxy = ProxyChoice::Url(bad.into());
        let error = config.connect().expect_err(bad).to_string();
        assert!(error.contains("proxy") && !error.contains("s3cret"), "{error}");
    }
}

// TR-1
#[tokio::test]
async fn the_environment_names_the_proxy_and_its_exceptions() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("cluster.example"));
    let server = Scripted::start(Some(tls), |request, _| async move { echo(&request) }).await;
    let proxy = Proxy::start(Kind::Http, &authority, server.address).await;
    let mut config = server.config(Some(&authority));
    let url = format!("http://localhost:{}", proxy.port);
    config.environment = EnvironmentVariables::of([("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "other.example")]);
    assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.0, StatusCode::OK);
    assert!(proxy.asked().is_empty(), "this machine needs no proxy");
    config.server = "https://cluster.example".parse().expect("a URL");
    assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.0, StatusCode::OK);
    assert_eq!(proxy.asked().len(), 1);
    config.proxy = ProxyChoice::Direct;
    config.connect_timeout = std::time::Duration::from_secs(2);
    assert!(config.connect().expect("fine").send(get("/")).await.is_err(), "only the proxy resolves the name");
    assert_eq!(proxy.asked().len(), 1);
}
