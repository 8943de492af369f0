//! One request over TLS: the minimum that any client of an API server builds and contains.
//!
//! `hello-floor HOST:PORT` asks for `/version` in the HTTP version that the server prefers. It has
//! no controller, types, JSON or kubeconfig. The difference to `hello` is the cost of kubewright;
//! the rest is the cost of tokio, rustls and hyper.

use std::error::Error;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, pki_types::ServerName};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("which HOST:PORT?")?;
    let (host, _) = address.rsplit_once(':').ok_or("HOST:PORT has a colon")?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

    let name = ServerName::try_from(host.to_owned())?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, TcpStream::connect(&address).await?).await?;
    let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = TokioIo::new(stream);
    let request =
        Request::get(format!("https://{address}/version")).header("host", &address).body(Empty::<Bytes>::new())?;
    let answer = if speaks_http2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        sender.send_request(request).await?
    } else {
        let (mut sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        sender.send_request(request).await?
    };
    println!("{} {:?}", answer.status(), answer.into_body().collect().await?.to_bytes());
    Ok(())
}
