//! Metrics over HTTPS, for callers that the API server admits.

use std::net::SocketAddr;

use http::Method;
use kubewright_apiserver::{ApiServer, Fault, RunningServer, StaticTokens};
use kubewright_runtime::certificates::ServingCertificate;
use kubewright_runtime::manager::SecureMetrics;
use kubewright_runtime::{Manager, ManagerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::recording::Recording;
use crate::webhook::connect;

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: scrapers}]
";

struct Fixture {
    server: RunningServer,
    recording: Recording,
    secure: SocketAddr,
    plain: SocketAddr,
    authority: String,
    stop: CancellationToken,
    _running: AbortOnDropHandle<()>,
}

impl Fixture {
    async fn start() -> Self {
        let tokens = StaticTokens::from_csv("good,prometheus,1,scrapers\nother,jane,2").unwrap();
        let server = ApiServer::in_memory().tokens(tokens).preload(ROLE).start().await.unwrap();
        let recording = Recording::over(server.client());
        let certificate = ServingCertificate::self_signed(["127.0.0.1"]).unwrap();
        let authority = certificate.pem().unwrap().to_owned();
        let ((tell, told), (tell_plain, told_plain)) = (oneshot::channel(), oneshot::channel());
        let options = ManagerOptions::default()
            .listen(([127, 0, 0, 1], 0).into())
            .tell_address(tell_plain)
            .secure_metrics(SecureMetrics::new(([127, 0, 0, 1], 0).into(), certificate).tell_address(tell))
            .profiles()
            .handler("/debug/threads", |request| async move {
                http::Response::new(format!("one thread {}", request.uri().query().unwrap_or_default()).into())
            });
        let manager = Manager::new(&recording.client(), options);
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let running = AbortOnDropHandle::new(tokio::spawn(async move { manager.run(&shutdown).await.unwrap() }));
        let (secure, plain) = (told.await.unwrap(), told_plain.await.unwrap());
        Fixture { server, recording, secure, plain, authority, stop, _running: running }
    }

    /// Status code and body of a request with this value of the header `Authorization`.
    async fn get(&self, path: &str, authorization: &str) -> (u16, String) {
        let stream = connect(self.secure, &self.authority).await.unwrap();
        exchange(stream, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\n")).await
    }

    /// How many reviews the API server has received.
    fn reviews(&self) -> usize {
        let is_review = |path: &str| path.contains("tokenreviews") || path.contains("subjectaccessreviews");
        self.recording.take().iter().filter(|(method, path, _)| *method == Method::POST && is_review(path)).count()
    }
}

async fn exchange(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, head: &str) -> (u16, String) {
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn metrics_are_served_to_callers_that_the_api_server_admits() {
    let fixture = Fixture::start().await;
    for (authorization, code, text) in [
        ("Bearer good", 200, "rest_client_requests_total"),
        ("bearer  good ", 200, "rest_client_requests_total"),
        ("Bearer other", 403, "Authorization denied for user jane\n"),
        ("Bearer unknown", 401, "Unauthorized\n"),
        ("Bearer ", 401, "Unauthorized\n"),
        ("Basic Z29vZA==", 401, "Unauthorized\n"),
    ] {
        let (answered, body) = fixture.get("/metrics", authorization).await;
        assert_eq!(answered, code, "{authorization:?} {body}");
        assert!(body.contains(text), "{authorization:?} {body}");
    }
    // A permission is for one path.
    for path in ["/debug/threads", "/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        assert_eq!(fixture.get(path, "Bearer good").await.0, 403, "{path}");
        assert_eq!(fixture.get(path, "Bearer unknown").await.0, 401, "{path}");
    }
    assert_eq!(fixture.get("/healthz", "Bearer good").await.0, 404);
    // The plain address has health only.
    for (path, code) in
        [("/healthz", 200), ("/readyz", 200), ("/metrics", 404), ("/debug/threads", 404), ("/debug/pprof/heap", 404)]
    {
        let stream = TcpStream::connect(fixture.plain).await.unwrap();
        assert_eq!(exchange(stream, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n")).await.0, code, "{path}");
    }
    fixture.stop.cancel();
}

#[tokio::test]
async fn decisions_are_cached_and_failed_reviews_are_not() {
    let fixture = Fixture::start().await;
    fixture.server.faults().inject(Fault::answer(500).resource("tokenreviews").times(1));
    assert_eq!(fixture.get("/metrics", "Bearer good").await, (500, "Authentication failed\n".to_owned()));
    fixture.server.faults().inject(Fault::answer(500).resource("subjectaccessreviews").times(1));
    let (code, body) = fixture.get("/metrics", "Bearer good").await;
    assert_eq!((code, &*body), (500, "Authorization for user prometheus failed\n"));
    fixture.reviews();
    for _ in 0..3 {
        assert_eq!(fixture.get("/metrics", "Bearer good").await.0, 200);
        assert_eq!(fixture.get("/metrics", "Bearer other").await.0, 403);
        assert_eq!(fixture.get("/metrics", "Bearer unknown").await.0, 401);
    }
    // The permission of one, both reviews of another, the token of the third.
    assert_eq!(fixture.reviews(), 4);
}

#[tokio::test]
async fn other_pages_are_served_with_the_metrics() {
    let tell = oneshot::channel();
    let options = ManagerOptions::default()
        .listen(([127, 0, 0, 1], 0).into())
        .tell_address(tell.0)
        .handler("/debug/threads", |_| async { http::Response::new("one thread".into()) });
    let server = ApiServer::in_memory().start().await.unwrap();
    let (manager, stop) = (Manager::new(&server.client(), options), CancellationToken::new());
    let shutdown = stop.clone();
    let _running = AbortOnDropHandle::new(tokio::spawn(async move { manager.run(&shutdown).await }));
    let address = tell.1.await.unwrap();
    let page = exchange(TcpStream::connect(address).await.unwrap(), "GET /debug/threads HTTP/1.1\r\nhost: x\r\n").await;
    assert_eq!(page, (200, "one thread".to_owned()));
}
