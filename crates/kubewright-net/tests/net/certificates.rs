//! Client certificates and their rotation.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use kubewright_net::Secret;
use kubewright_net::config::{CertificateSource, EnvironmentVariables};
use kubewright_net::credentials::{ClientCertificate, KeySource};
use kubewright_net::transport::{Transport, TransportError, TransportErrorKind, Upgrade};

use crate::authorities::pass;
use crate::directory::Directory;
use crate::requests::{ask, get, secure_server, text};
use crate::scripted::{Authority, Pair, Peer, Script, Scripted};

/// Answers with the name in the client's certificate.
pub async fn who(request: Request<Incoming>, peer: Peer) -> Response<Script> {
    let names = ["jane", "bob", "eve"];
    let has = |name: &&&str| {
        peer.certificate.as_ref().is_some_and(|der| der.windows(name.len()).any(|w| w == name.as_bytes()))
    };
    let name = names.iter().find(has).copied().unwrap_or("nobody");
    match request.uri().path() {
        "/watch" => Response::new(Script::text(name).hang()),
        _ => Response::new(Script::text(name)),
    }
}

fn files(directory: &Directory, pair: &Pair) -> ClientCertificate {
    let certificate = directory.write("client.pem", &pair.certificate);
    let key = directory.write("client.key", &pair.key);
    ClientCertificate { certificate: CertificateSource::File(certificate), key: KeySource::File(key) }
}

fn data(pair: &Pair) -> ClientCertificate {
    ClientCertificate {
        certificate: CertificateSource::Data(pair.certificate.as_str().into()),
        key: KeySource::Data(Secret::new(pair.key.as_str().into())),
    }
}

async fn server(authority: &Authority) -> Scripted {
    Scripted::start(Some(authority.server(&authority.sign("server"))), who).await
}

// TR-4
#[tokio::test]
async fn new_files_close_all_connections_and_are_shown_from_then_on() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.client_certificate = Some(files(&directory, &authority.sign("jane")));
    let transport = config.connect().expect("fine");
    let mut watch = transport.send(get("/watch")).await.expect("it answers").into_body();
    assert_eq!(watch.chunk().await.expect("fine").as_deref(), Some(&b"jane"[..]));

    pass(Duration::from_secs(400)).await;
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    assert_eq!(server.connections(), 1, "files that have not changed close nothing");

    files(&directory, &authority.sign("bob"));
    assert_eq!(ask(&transport, get("/")).await.1, "jane", "the connection is the old one");
    pass(Duration::from_secs(400)).await;
    let error = tokio::time::timeout(Duration::from_secs(5), watch.chunk()).await.expect("it is closed");
    assert_eq!(error.expect_err("it is closed").kind(), TransportErrorKind::Disconnected);
    assert_eq!(ask(&transport, get("/")).await.1, "bob");
}

// TR-4
#[tokio::test]
async fn a_new_connection_reloads_the_files_and_a_mismatched_pair_changes_nothing() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.client_certificate = Some(files(&directory, &authority.sign("jane")));
    let transport = config.connect().expect("fine");
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    // The key does not match the certificate yet, as in the middle of a rotation.
    let bob = authority.sign("bob");
    directory.write("client.pem", &bob.certificate);
    pass(Duration::from_secs(2)).await;
    transport.close_connections();
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    directory.write("client.key", &bob.key);
    pass(Duration::from_secs(2)).await;
    transport.close_connections();
    assert_eq!(ask(&transport, get("/")).await.1, "bob");
}

// TR-4, TR-5
#[tokio::test]
async fn an_upgraded_connection_reloads_the_files_too() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.client_certificate = Some(files(&directory, &authority.sign("jane")));
    config.tls.authority = Some(CertificateSource::File(directory.write("ca.pem", authority.pem())));
    let transport = config.connect().expect("fine");
    let refusal = async || {
        let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
        let upgrade = transport.upgrade(request.body(Bytes::new()).expect("fine")).await?;
        let Upgrade::Refused(answer) = upgrade else { panic!("it knows no other protocol") };
        Ok::<String, TransportError>(text(answer.into_body()).await)
    };
    assert_eq!(refusal().await.expect("it answers"), "jane");
    files(&directory, &authority.sign("bob"));
    pass(Duration::from_secs(2)).await;
    assert_eq!(refusal().await.expect("it answers"), "bob");
    // A program may use only exec and port-forward.
    directory.write("ca.pem", Authority::new().pem());
    pass(Duration::from_secs(301)).await;
    assert_eq!(refusal().await.expect_err("another authority signs now").kind(), TransportErrorKind::Tls);
}

// TR-4
#[tokio::test]
async fn inline_certificates_are_not_reloaded() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let mut config = server.config(Some(&authority));
    config.credentials.client_certificate = Some(data(&authority.sign("jane")));
    let transport = config.connect().expect("fine");
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    pass(Duration::from_secs(400)).await;
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    config.credentials.client_certificate = None;
    assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.1, "nobody");
}

#[tokio::test]
async fn certificates_that_are_no_good_are_named_without_their_content() {
    let authority = Authority::new();
    let (jane, bob) = (authority.sign("jane"), authority.sign("bob"));
    let mut config = crate::scripted::config("https://server", Some(&authority));
    let mut refused = |certificate: &str, key: &str| {
        config.credentials.client_certificate = Some(ClientCertificate {
            certificate: CertificateSource::Data(certificate.into()),
            key: KeySource::Data(Secret::new(key.into())),
        });
        let error = config.connect().expect_err("it is no good");
        format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))
    };
    for (certificate, key) in [("x", jane.key.as_str()), (&jane.certificate, "s3cret"), (&jane.certificate, &bob.key)] {
        let error = refused(certificate, key);
        assert!(!error.contains("s3cret") && !error.contains("PRIVATE"), "{error}");
    }
}

// TR-4
#[tokio::test]
async fn a_rejected_client_certificate_is_reported() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    // It rejects the certificate in the handshake.
    let scripted = server(&authority).await;
    let mut config = scripted.config(Some(&authority));
    config.credentials.client_certificate = Some(data(&stranger.sign("jane")));
    for variable in ["DISABLE_HTTP2", "NOTHING"] {
        config.environment = EnvironmentVariables::of([(variable, "1")]);
        let error = config.connect().expect("fine").send(get("/api/v1/pods")).await.expect_err("it is not believed");
        assert_eq!(error.kind(), TransportErrorKind::Tls, "{error:?}");
    }
    // An API server answers with 401.
    let (_server, mut config) = secure_server().await;
    config.credentials.client_certificate = Some(data(&stranger.sign("jane")));
    let unknown = ask(&config.connect().expect("fine"), get("/api/v1/pods")).await.0;
    assert_eq!(unknown, StatusCode::UNAUTHORIZED);
    config.credentials.client_certificate = None;
    let anonymous = ask(&config.connect().expect("fine"), get("/api/v1/pods")).await.0;
    assert_eq!(anonymous, StatusCode::FORBIDDEN);
}
