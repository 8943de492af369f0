//! Scripted servers and their certificates.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kubewright_net::Config;
use kubewright_net::config::{CertificateSource, EnvironmentVariables};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, PublicKeyData,
    SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("keys")).expect("fine"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The signing key, in PEM.
    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A certificate for this name, which is also `localhost` and the loopback address if it is a
    /// server's.
    pub fn sign(&self, name: &str) -> Pair {
        self.sign_with(name, |_| {})
    }

    pub fn sign_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = named(name);
        params.subject_alt_names = vec![
            SanType::DnsName("localhost".try_into().expect("a name")),
            SanType::IpAddress([127, 0, 0, 1].into()),
            SanType::DnsName(name.try_into().expect("a name")),
        ];
        change(&mut params);
        let key = KeyPair::generate().expect("keys");
        let certificate = params.signed_by(&key, &self.0).expect("fine");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: key.serialize_der(),
        }
    }

    /// A certificate in PEM for a given public key: a point on P-256.
    pub fn sign_key(&self, point: Vec<u8>, name: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = named(name);
        change(&mut params);
        params.signed_by(&Point(point), &self.0).expect("fine").pem()
    }

    /// The TLS configuration of a server that presents `pair` and trusts client certificates of
    /// this authority.
    pub fn server(&self, pair: &Pair) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let key = PrivateKeyDer::try_from(pair.key_der.clone()).expect("a key");
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("fine")
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().expect("fine"))
            .with_single_cert(vec![pair.der.clone()], key)
            .expect("fine");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A body of chunks, each after a delay; then it ends, or stalls.
#[derive(Default)]
pub struct Script {
    chunks: VecDeque<(Duration, Bytes)>,
    hangs: bool,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Script {
    pub fn text(text: impl Into<String>) -> Self {
        Script::default().then(Duration::ZERO, text.into())
    }

    pub fn then(mut self, delay: Duration, chunk: impl Into<Bytes>) -> Self {
        self.chunks.push_back((delay, chunk.into()));
        self
    }

    pub fn hang(mut self) -> Self {
        self.hangs = true;
        self
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(&(delay, _)) = self.chunks.front() else {
            return if self.hangs { Poll::Pending } else { Poll::Ready(None) };
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
        if !delay.is_zero() && sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.sleep = None;
        Poll::Ready(self.chunks.pop_front().map(|(_, chunk)| Ok(Frame::data(chunk))))
    }
}

/// The peer with its presented certificate.
#[derive(Clone)]
pub struct Peer {
    pub certificate: Option<CertificateDer<'static>>,
}

/// A server, stopped on drop.
pub struct Scripted {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    /// Listens and answers each request with `answer`.
    pub async fn start<F>(
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Script>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (tls, answer) = (tls.clone(), answer.clone());
                tasks.spawn(async move {
                    let Some(tls) = tls else {
                        return serve(socket, Peer { certificate: None }, answer).await;
                    };
                    let Ok(stream) = TlsAcceptor::from(tls).accept(socket).await else { return };
                    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let certificate = certificate.map(|certificate| certificate.clone().into_owned());
                    serve(stream, Peer { certificate }, answer).await;
                });
            }
        });
        Scripted { address, connections, task }
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// A configuration for this server, trusting `authority`, untouched by variables of the
    /// process.
    pub fn config(&self, authority: Option<&Authority>) -> Config {
        let scheme = if authority.is_some() { "https" } else { "http" };
        config(&format!("{scheme}://{}", self.address), authority)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A configuration for a server, trusting `authority`, untouched by variables of the process.
pub fn config(server: &str, authority: Option<&Authority>) -> Config {
    let mut config = Config::new(server).expect("a URL");
    config.environment = EnvironmentVariables::of::<String, String>([]);
    config.tls.authority = authority.map(|authority| CertificateSource::Data(authority.pem().as_str().into()));
    config
}

async fn serve<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    answer: impl Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Script>> + Send + 'static,
{
    let respond = service_fn(move |request| {
        let answered = answer(request, peer.clone());
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let builder = Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), respond).await;
}

/// Each header of a request on a line of its own, sorted.
pub fn echo(request: &Request<Incoming>) -> Response<Script> {
    let line = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap_or_default())
    };
    let mut lines: Vec<String> = request.headers().iter().map(line).collect();
    lines.sort();
    let head = format!("{:?} {} {}\n", request.version(), request.method(), request.uri());
    Response::new(Script::text(head + &lines.concat()))
}
