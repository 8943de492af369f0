//! Requests to the embedded server and to an echo server.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::Client;
use kubewright_net::config::{EnvironmentVariables, Kubeconfig, Overrides};
use kubewright_net::credentials::Impersonation;
use kubewright_net::transport::{Body, RequestTimeout, Transport, TransportErrorKind, Upgrade};
use kubewright_net::{Config, Secret};
use kubewright_net::{HttpTransport, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::faults::played;
use crate::scripted::{Authority, Peer, Script, Scripted, config, echo};

pub fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).expect("a path")
}

pub async fn text(mut body: Body) -> String {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await.expect("the body is whole") {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).expect("text")
}

pub async fn ask(transport: &HttpTransport, request: Request<Bytes>) -> (StatusCode, String) {
    let response = transport.send(request).await.expect("the server answers");
    (response.status(), text(response.into_body()).await)
}

/// The embedded server on a socket with TLS.
pub async fn secure_server() -> (RunningServer, Config) {
    let server = ApiServer::in_memory().listen("127.0.0.1:0".parse().expect("an address"));
    let server = server.start().await.expect("a free port");
    let kubeconfig = Kubeconfig::parse(&server.kubeconfig(), None).expect("it is fine");
    let mut config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("it is fine");
    config.environment = EnvironmentVariables::of::<String, String>([]);
    (server, config)
}

/// A transport through memory to an embedded server.
pub fn through_memory(server: RunningServer, config: &Config, protocol: Protocol) -> HttpTransport {
    let open = move || {
        let stream = server.connect();
        async move { Ok(stream) }
    };
    config.connect_over(protocol, open).expect("nothing contradicts")
}

#[tokio::test]
async fn a_kubeconfig_leads_to_its_server_over_http2() {
    let (_server, config) = secure_server().await;
    let transport = config.connect().expect("certificates are fine");
    let response = transport.send(get("/api/v1/namespaces/default")).await.expect("it answers");
    assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
    assert!(text(response.into_body()).await.contains("\"default\""));
    let requests = (0..50).map(|_| ask_owned(transport.clone(), "/api/v1/namespaces"));
    let tasks: Vec<_> = requests.map(tokio::spawn).collect();
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), StatusCode::OK);
    }
    assert_eq!(transport.connections(), 1);
}

async fn ask_owned(transport: HttpTransport, path: &'static str) -> StatusCode {
    ask(&transport, get(path)).await.0
}

// TR-2
#[tokio::test]
async fn http2_can_be_turned_off() {
    let (_server, mut config) = secure_server().await;
    config.environment = EnvironmentVariables::of([("DISABLE_HTTP2", "true")]);
    let transport = config.connect().expect("certificates are fine");
    for _ in 0..5 {
        let response = transport.send(get("/version")).await.expect("it answers");
        assert_eq!(response.version(), Version::HTTP_11);
        text(response.into_body()).await;
    }
    settle(&transport, 1).await;
}

/// Waits until a transport has this many connections available.
pub async fn settle(transport: &HttpTransport, connections: usize) {
    for _ in 0..200 {
        if transport.connections() == connections {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(transport.connections(), connections);
}

#[tokio::test]
async fn plain_http_and_in_memory_transports_work() {
    let server = ApiServer::in_memory().listen("127.0.0.1:0".parse().expect("an address")).plain_http();
    let server = server.start().await.expect("a free port");
    let plain = config(server.url().expect("it listens"), None);
    assert_eq!(ask(&plain.connect().expect("fine"), get("/version")).await.0, StatusCode::OK);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail");
        let transport = through_memory(server, &plain, protocol);
        assert_eq!(ask(&transport, get("/version")).await.0, StatusCode::OK);
    }
}

// TR-1
#[tokio::test]
async fn large_responses_are_compressed_and_decompressed_transparently() {
    let big = "x".repeat(300_000);
    let object = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: big}}, data: {{k: {big}}}}}");
    let server = || async { ApiServer::in_memory().preload(object.clone()).start().await.expect("the object is fine") };
    let path = "/api/v1/namespaces/default/configmaps/big";
    let config = config("http://server", None);
    let transport = through_memory(server().await, &config, Protocol::Http2);
    let response = transport.send(get(path)).await.expect("it answers");
    assert!(!response.headers().contains_key("content-encoding") && !response.headers().contains_key("content-length"));
    assert!(text(response.into_body()).await.contains(&big));

    let mut request = get(path);
    request.headers_mut().insert("accept-encoding", HeaderValue::from_static("gzip"));
    let response = transport.send(request).await.expect("it answers");
    assert_eq!(response.headers()["content-encoding"], "gzip", "who asks for it gets it as it is");

    let mut config = config.clone();
    config.disable_compression = true;
    let transport = through_memory(server().await, &config, Protocol::Http2);
    assert!(ask(&transport, get(path)).await.1.contains(&big));
}

// RC-10, TR-8, TR-7
#[tokio::test]
async fn requests_carry_user_agent_impersonation_and_credentials() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), |request, _| async move { echo(&request) }).await;
    let mut config = server.config(Some(&authority));
    config.server = format!("https://localhost:{}/clusters/a/", server.address.port()).parse().expect("a URL");
    config.user_agent = "kubewright/test".to_owned();
    config.credentials.token = Some("s3cret".into());
    config.impersonation = Some(Impersonation { groups: vec!["dev".to_owned()], ..Impersonation::user("jane") });
    let transport = config.connect().expect("fine");

    let heard = ask(&transport, get("/api/v1/pods?limit=1")).await.1;
    let authority_of = format!("https://localhost:{}", server.address.port());
    assert!(heard.starts_with(&format!("HTTP/2.0 GET {authority_of}/clusters/a/api/v1/pods?limit=1\n")), "{heard}");
    for line in [
        "authorization: Bearer s3cret",
        "impersonate-group: dev",
        "impersonate-user: jane",
        "user-agent: kubewright/test",
    ] {
        assert!(heard.contains(line), "{line} in {heard}");
    }

    let mut request = get("/");
    request.extensions_mut().insert(Impersonation::user("bob"));
    request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer other"));
    let heard = ask(&transport, request).await.1;
    assert!(heard.contains("impersonate-user: bob") && !heard.contains("impersonate-group"), "{heard}");
    assert!(heard.contains("Bearer other") && !heard.contains("s3cret"), "{heard}");

    let mut request = get("/");
    request.headers_mut().insert("impersonate-user", HeaderValue::from_static("eve"));
    let heard = ask(&transport, request).await.1;
    assert!(heard.contains("impersonate-user: eve") && !heard.contains("jane") && !heard.contains("dev"), "{heard}");
}

// KC-5
#[tokio::test]
async fn credentials_are_not_sent_without_tls() {
    let server = Scripted::start(None, |request, _| async move { echo(&request) }).await;
    let mut config = server.config(None);
    config.credentials.token = Some("s3cret".into());
    config.impersonation = Some(Impersonation::user("jane"));
    let heard = ask(&config.connect().expect("fine"), get("/")).await.1;
    assert!(!heard.contains("authorization"), "{heard}");
    assert!(heard.starts_with("HTTP/1.1 GET /\n") && heard.contains("impersonate-user: jane"), "{heard}");
}

// TR-7
#[test]
fn contradictions_are_refused() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = config("https://server", None);
        change(&mut config);
        config.connect().expect_err("it contradicts itself").to_string()
    };
    let basic = refused(&|config| {
        config.credentials.token = Some("t".into());
        config.credentials.username = Some("u".into());
    });
    assert!(basic.contains("bearer token"), "{basic}");
    let insecure = refused(&|config| {
        config.tls.insecure = true;
        config.tls.authority = Some(kubewright_net::config::CertificateSource::Data("x".into()));
    });
    assert!(insecure.contains("insecure"), "{insecure}");
    let plain = refused(&|config| {
        config.server = "http://server".parse().expect("a URL");
        config.tls.insecure = true;
    });
    assert!(plain.contains("without TLS"), "{plain}");
    let mut given = config("https://server", None);
    given.tls.insecure = true;
    let opened = given.connect_over(Protocol::Http1, || async { Ok(tokio::io::empty()) });
    assert!(opened.expect_err("it contradicts itself").to_string().contains("given streams"));
    assert!(refused(&|config| config.credentials.token = Some(Secret::from("a\nb"))).contains("header"));
}

// TR-1
#[tokio::test(start_paused = true)]
async fn the_request_timeout_applies_to_requests_and_not_to_watches() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail");
    let mut config = config("http://server", None);
    config.timeout = Some(Duration::from_secs(5));
    let transport = through_memory(server, &config, Protocol::Http2);
    let response = transport.send(get("/api/v1/namespaces?watch=true")).await.expect("it answers");
    let mut body = response.into_body();
    assert!(body.chunk().await.expect("fine").is_some());
    let quiet = tokio::time::timeout(Duration::from_secs(600), async {
        while body.chunk().await.is_ok_and(|c| c.is_some()) {}
    });
    assert!(quiet.await.is_err(), "the watch still goes on after ten minutes");

    let (ours, theirs) = tokio::io::duplex(1024);
    let silent = std::sync::Mutex::new(Some(ours));
    let open = move || {
        let stream = silent.lock().expect("no panic").take();
        async move { stream.ok_or_else(|| std::io::Error::other("only once")) }
    };
    let transport = config.connect_over(Protocol::Http1, open).expect("fine");
    let start = tokio::time::Instant::now();
    let mut request = get("/");
    request.extensions_mut().insert(RequestTimeout(Some(Duration::from_secs(2))));
    let error = transport.send(request).await.expect_err("there is no response");
    assert_eq!((error.kind(), start.elapsed()), (TransportErrorKind::Timeout, Duration::from_secs(2)));
    drop(theirs);
}

// TR-1
#[tokio::test(start_paused = true)]
async fn the_request_timeout_applies_to_upgrades() {
    let transport = played(Protocol::Http1, |number, mut stream| async move {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        if number > 0 {
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\n\r\n").await;
        }
        std::future::pending::<()>().await;
    });
    let request = || {
        let mut request = get("/");
        request.extensions_mut().insert(RequestTimeout(Some(Duration::from_secs(2))));
        request
    };
    let late = (TransportErrorKind::Timeout, Duration::from_secs(2));
    let start = tokio::time::Instant::now();
    let unanswered = tokio::time::timeout(Duration::from_secs(60), transport.upgrade(request())).await;
    let error = unanswered.expect("it ends").expect_err("there is no response");
    assert_eq!((error.kind(), start.elapsed()), late);

    let start = tokio::time::Instant::now();
    let Ok(Upgrade::Refused(response)) = transport.upgrade(request()).await else { panic!("it refuses") };
    let unread = tokio::time::timeout(Duration::from_secs(60), response.into_body().chunk()).await;
    let error = unread.expect("it ends").expect_err("the reason never comes");
    assert_eq!((error.kind(), start.elapsed()), late);
}

// TR-1
#[tokio::test]
async fn a_maximum_timeout_means_no_timeout() {
    let mut config = config("http://server", None);
    config.timeout = Some(Duration::MAX);
    let server = ApiServer::in_memory().start().await.expect("nothing can fail");
    let transport = through_memory(server, &config, Protocol::Http2);
    assert_eq!(ask(&transport, get("/version")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_connection_can_be_upgraded() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), |mut request: Request<hyper::body::Incoming>, _| async move {
        if request.uri().path() == "/no" {
            let mut response = Response::new(Script::text("no"));
            *response.status_mut() = StatusCode::FORBIDDEN;
            return response;
        }
        assert_eq!(request.headers()["authorization"], "Bearer s3cret");
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = hyper_util::rt::TokioIo::new(upgrade.await.expect("the client agrees"));
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).await.expect("it speaks");
            heard.reverse();
            stream.write_all(&heard).await.expect("it listens");
        });
        let response = Response::builder().status(101).header("connection", "upgrade").header("upgrade", "echo");
        response.body(Script::default()).expect("fine")
    })
    .await;
    let mut config = server.config(Some(&authority));
    config.credentials.token = Some("s3cret".into());
    let transport = config.connect().expect("fine");
    let request = |path: &str| {
        let request = Request::get(path).header("connection", "upgrade").header("upgrade", "echo");
        request.body(Bytes::new()).expect("fine")
    };
    let Upgrade::Switched(head, mut stream) = transport.upgrade(request("/yes")).await.expect("it answers") else {
        panic!("it agrees");
    };
    assert_eq!(head.headers()["upgrade"], "echo");
    stream.write_all(b"abcd").await.expect("it listens");
    let mut heard = [0; 4];
    stream.read_exact(&mut heard).await.expect("it speaks");
    assert_eq!(&heard, b"dcba");
    let Upgrade::Refused(response) = transport.upgrade(request("/no")).await.expect("it answers") else {
        panic!("it refuses");
    };
    assert_eq!((response.status(), text(response.into_body()).await.as_str()), (StatusCode::FORBIDDEN, "no"));
}

// TR-1, RC-2
#[tokio::test]
async fn a_limit_of_the_client_may_be_longer_than_that_of_the_configuration() {
    let server = Scripted::start(None, |_: Request<hyper::body::Incoming>, _: Peer| async move {
        Response::new(Script::default().then(Duration::from_millis(1500), "late"))
    })
    .await;
    let mut config = server.config(None);
    config.timeout = Some(Duration::from_millis(500));
    let client = Client::try_from(config).expect("fine");
    let ask = |client: &Client| client.rest().get().absolute_path("/").retries(0);
    assert!(ask(&client).send().await.expect_err("it takes longer").is_timeout());
    let patient = Duration::from_secs(60);
    assert_eq!(ask(&client).timeout(patient).send().await.expect("there is time").text(), "late");
    assert_eq!(ask(&client.request_timeout(patient)).send().await.expect("there is time").text(), "late");
}
