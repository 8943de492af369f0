//! Rotation of certificate authorities with open connections.

use std::time::Duration;

use http::{Response, StatusCode};
use kubewright_net::config::CertificateSource;
use kubewright_net::credentials::{ClientCertificate, KeySource};
use kubewright_net::transport::{Transport, TransportErrorKind};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa};

use crate::directory::Directory;
use crate::requests::{ask, get};
use crate::scripted::{Authority, Pair, Script, Scripted};

/// Advances the paused clock, then lets other tasks run.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

// TR-5
#[tokio::test]
async fn a_reloaded_authority_is_trusted_and_open_connections_continue() {
    let (old, new) = (Authority::new(), Authority::new());
    let answer = |request: http::Request<_>, _| async move {
        match request.uri().path() {
            "/watch" => {
                let late = Duration::from_secs(400);
                Response::new(Script::text("first").then(late, "second"))
            }
            _ => Response::new(Script::text("ok")),
        }
    };
    let before = Scripted::start(Some(old.server(&old.sign("server"))), answer).await;
    let after = Scripted::start(Some(new.server(&new.sign("server"))), answer).await;
    let directory = Directory::new();
    let file = directory.write("ca.pem", old.pem());
    let mut config = before.config(None);
    config.server = format!("https://{}", before.address).parse().expect("a URL");
    config.tls.authority = Some(CertificateSource::File(file));
    let transport = config.connect().expect("fine");
    let mut watch = transport.send(get("/watch")).await.expect("it answers").into_body();
    assert_eq!(watch.chunk().await.expect("fine").as_deref(), Some(&b"first"[..]));

    // Only the authority has changed: the old server is no longer trusted, but its watch continues.
    directory.write("ca.pem", new.pem());
    assert_eq!(ask(&transport, get("/")).await.0, StatusCode::OK, "the file is not looked at yet");
    pass(Duration::from_secs(301)).await;
    let error = transport.send(get("/")).await.expect_err("another authority signs now");
    assert_eq!(error.kind(), TransportErrorKind::Tls);
    pass(Duration::from_secs(100)).await;
    assert_eq!(watch.chunk().await.expect("it goes on").as_deref(), Some(&b"second"[..]));

    let mut config = config.clone();
    config.server = format!("https://{}", after.address).parse().expect("a URL");
    assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.0, StatusCode::OK);
}

// TR-5
#[tokio::test]
async fn an_unreadable_file_changes_nothing() {
    let authority = Authority::new();
    let answer = |_: http::Request<_>, _| async { Response::new(Script::text("ok")) };
    let server = Scripted::start(Some(authority.server(&authority.sign("server"))), answer).await;
    let directory = Directory::new();
    let file = directory.write("ca.pem", authority.pem());
    let mut config = server.config(Some(&authority));
    config.tls.authority = Some(CertificateSource::File(file.clone()));
    let transport = config.connect().expect("fine");
    for content in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        directory.write("ca.pem", content);
        pass(Duration::from_secs(301)).await;
        transport.close_connections();
        assert_eq!(ask(&transport, get("/")).await.0, StatusCode::OK, "{content:?}");
    }
    std::fs::remove_file(&file).expect("it is there");
    pass(Duration::from_secs(301)).await;
    transport.close_connections();
    assert_eq!(ask(&transport, get("/")).await.0, StatusCode::OK);
    let error = config.connect().expect_err("at the start it has to be right").to_string();
    assert!(error.contains("ca.pem"), "{error}");
    config.tls.authority = Some(CertificateSource::Data("".into()));
    assert!(config.connect().is_err(), "no authorities never means those of the machine");
}

// TR-4, TR-5
#[tokio::test]
async fn slow_certificate_files_do_not_delay_requests() {
    let authority = Authority::new();
    let answer = |_: http::Request<_>, _| async { Response::new(Script::text("ok")) };
    let server = Scripted::start(Some(authority.server(&authority.sign("server"))), answer).await;
    let directory = Directory::new();
    let identity = authority.sign("client");
    let mut config = server.config(Some(&authority));
    config.tls.authority = Some(CertificateSource::File(directory.write("ca.pem", authority.pem())));
    config.credentials.client_certificate = Some(ClientCertificate {
        certificate: CertificateSource::File(directory.write("client.pem", identity.certificate.as_str())),
        key: KeySource::File(directory.write("client.key", identity.key.as_str())),
    });
    let transport = config.connect().expect("fine");
    assert_eq!(ask(&transport, get("/")).await.0, StatusCode::OK);
    for name in ["ca.pem", "client.pem"] {
        std::fs::remove_file(directory.path(name)).expect("it is there");
        directory.pipe(name);
    }
    pass(Duration::from_secs(301)).await;
    transport.close_connections();
    for _ in 0..2 {
        let asked = tokio::time::timeout(Duration::from_secs(10), ask(&transport, get("/")));
        assert_eq!(asked.await.expect("it does not wait for the files").0, StatusCode::OK);
    }
    // Unblocks the threads that read them.
    for (name, text) in [("ca.pem", authority.pem()), ("client.pem", identity.certificate.clone())] {
        let path = directory.path(name);
        let written = tokio::task::spawn_blocking(move || std::fs::write(path, text));
        written.await.expect("no panic").expect("the peer reads");
    }
}

// TR-5
#[tokio::test]
async fn a_trusted_server_certificate_is_accepted_as_in_go() {
    let authority = Authority::new();
    let answer = |_: http::Request<_>, _| async { Response::new(Script::text("ok")) };
    let trusts = async |pair: &Pair, pem: &str| {
        let server = Scripted::start(Some(authority.server(pair)), answer).await;
        let mut config = server.config(Some(&authority));
        config.tls.authority = Some(CertificateSource::Data(pem.into()));
        config.connect().expect("fine").send(get("/")).await.map(drop).map_err(|error| error.kind())
    };
    let (server, other) = (authority.sign("server"), authority.sign("server"));
    assert_eq!(trusts(&server, &server.certificate).await, Ok(()), "the certificate itself is trusted");
    assert_eq!(trusts(&server, &other.certificate).await, Err(TransportErrorKind::Tls));
    let both = authority.sign_with("server", |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert_eq!(trusts(&both, &both.certificate).await, Ok(()), "an authority may serve");
    assert_eq!(trusts(&server, &both.certificate).await, Err(TransportErrorKind::Tls));

    let client = authority.sign_with("server", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(trusts(&client, &client.certificate).await, Err(TransportErrorKind::Tls), "not for servers");
    let old = authority.sign_with("server", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert_eq!(trusts(&old, &old.certificate).await, Err(TransportErrorKind::Tls), "expired");
    let foreign = authority.sign_with("server", |params| params.subject_alt_names.clear());
    assert_eq!(trusts(&foreign, &foreign.certificate).await, Err(TransportErrorKind::Tls), "another name");
}
