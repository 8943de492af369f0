//! A certificate authority with an HTTP interface, and the operator that uses it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubewright::api::core::v1::{Event, Secret};
use kubewright::client::clock;
use kubewright::client::transport::{Body, ResponseFuture};
use kubewright::options::ListOptions;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::ownership::is_controlled_by;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, Client, Config, Object, condition, json};
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair, PublicKeyData};
use tokio::time::sleep;
use tracing_subscriber::util::SubscriberInitExt;

use super::{Certificate, CertificateSpec, manager};
use crate::support::{Audit, assert_written, cluster, operator};

const RBAC: &str = include_str!("rbac.yaml");
const CRD: &str = include_str!("crd.yaml");
const MINUTE: Duration = Duration::from_secs(60);

/// A certificate authority.
#[derive(Clone)]
struct Authority {
    issuer: Arc<Issuer<'static, KeyPair>>,
    state: Arc<Mutex<AuthorityState>>,
}

#[derive(Default)]
struct AuthorityState {
    /// Certificates and public keys, by owner.
    issued: BTreeMap<String, Vec<(String, Vec<u8>)>>,
    /// The next answers; a success when there are none.
    failures: VecDeque<StatusCode>,
    requests: usize,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let issuer = Issuer::new(CertificateParams::new(["test authority".to_owned()]).expect("a name"), key);
        Authority { issuer: Arc::new(issuer), state: Arc::default() }
    }

    fn fail(&self, codes: &[u16]) {
        let codes = codes.iter().map(|code| StatusCode::from_u16(*code).expect("a code"));
        self.state.lock().expect("no panic").failures = codes.collect();
    }

    fn requests(&self) -> usize {
        self.state.lock().expect("no panic").requests
    }

    /// The number of certificates of all owners.
    fn valid(&self) -> usize {
        self.state.lock().expect("no panic").issued.values().map(Vec::len).sum()
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> Response<Bytes> {
        let answer = |code: u16, body: String| {
            let answer = Response::builder().status(code).header("content-type", "application/json");
            answer.body(Bytes::from(body)).expect("a valid answer")
        };
        let mut state = self.state.lock().expect("no panic");
        state.requests += 1;
        if let Some(code) = state.failures.pop_front() {
            return answer(code.as_u16(), json!({"error": "not now"}).to_string());
        }
        let owner = path.strip_prefix("/owners/").and_then(|rest| rest.strip_suffix("/certificates"));
        let owner = owner.expect("a path of this interface").to_owned();
        if *method == Method::DELETE {
            let code = if state.issued.remove(&owner).is_some() { 200 } else { 404 };
            return answer(code, json!({}).to_string());
        }
        let wanted: serde_json::Value = serde_json::from_slice(body).expect("valid JSON");
        let request = wanted["request"].as_str().expect("a signing request");
        let request = CertificateSigningRequestParams::from_pem(request).expect("it is signed by its key");
        let certificate = request.signed_by(&self.issuer).expect("it is signed").pem();
        let lifetime = Duration::from_secs(wanted["seconds"].as_u64().expect("a lifetime"));
        let not_after = clock::now().checked_add(lifetime).expect("it is not far away");
        let text = json!({"certificate": certificate.as_str(), "notAfter": not_after.to_string().as_str()}).to_string();
        state.issued.entry(owner).or_default().push((certificate, request.public_key.der_bytes().to_vec()));
        answer(201, text)
    }

    /// A client without a network, for a paused clock.
    fn in_memory(&self) -> Client {
        let authority = self.clone();
        Client::over(move |request: Request<Bytes>| -> ResponseFuture {
            let answer = authority.answer(request.method(), request.uri().path(), request.body());
            Box::pin(async { Ok(answer.map(|body| Body::new(futures_util::stream::iter([Ok(body)])))) })
        })
    }

    /// A client of an HTTP server.
    async fn over_http(&self) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let authority = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let authority = authority.clone();
                let respond = service_fn(move |request: Request<Incoming>| {
                    let authority = authority.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        Ok::<_, hyper::Error>(authority.answer(&head.method, head.uri.path(), &body).map(Full::new))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), respond));
            }
        });
        Client::try_from(Config::new(&url).expect("a URL")).expect("a plain connection")
    }
}

async fn start(authority: Client) -> (TestCluster, RunningManager, Audit) {
    let cluster = cluster(&[RBAC, CRD]).await.patience(60 * MINUTE);
    let (client, audit) = operator(&cluster, "certificate-issuer");
    let running = cluster.run(manager(&client, authority).expect("valid options"));
    (cluster, running, audit)
}

fn web() -> Certificate {
    let spec = CertificateSpec {
        dns_names: vec!["web.example.com".to_owned()],
        secret_name: "web-tls".to_owned(),
        lifetime_seconds: 600,
    };
    Certificate::new("web", spec)
}

fn is_ready(status: &str, reason: &str) -> impl Fn(&Certificate) -> bool {
    move |certificate| {
        let conditions = certificate.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        condition::find(conditions, "Ready").is_some_and(|ready| ready.status == *status && ready.reason == *reason)
    }
}

fn text<'a>(secret: &'a Secret, name: &str) -> &'a str {
    std::str::from_utf8(secret.data.get(name).expect("it has this key").as_ref()).expect("PEM")
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    assert_written("certificate_issuer/crd.yaml", CRD, &Certificate::definition());
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_certificate_is_issued_over_http_and_revoked_and_its_key_stays_secret() {
    let log = Log::default();
    let writer = log.clone();
    let logging = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let _logging = logging.with_ansi(false).with_writer(move || writer.clone()).set_default();
    let authority = Authority::new();
    authority.fail(&[503, 500]);
    let (cluster, running, _) = start(authority.over_http().await).await;
    let cluster = cluster.patience(MINUTE);
    let certificates = Api::<Certificate>::namespaced(&cluster.client(), "default");
    certificates.create(&web()).await.expect("it is valid");
    let certificate = cluster.eventually("default", "web", is_ready("True", "Issued")).await;

    let secret = Api::<Secret>::namespaced(&cluster.client(), "default").get("web-tls").await.expect("it was created");
    assert!(is_controlled_by(&secret, &certificate));
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    let issued = authority.state.lock().expect("no panic").issued[certificate.uid()][0].clone();
    assert_eq!(text(&secret, "tls.crt"), issued.0);
    // The key in the Secret is the one that the authority has certified.
    assert_eq!(KeyPair::from_pem(text(&secret, "tls.key")).expect("a key").public_key_raw(), issued.1);

    certificates.delete("web").await.expect("it is there");
    cluster.eventually_gone::<Certificate>("default", "web").await;
    cluster.eventually_gone::<Secret>("default", "web-tls").await;
    assert_eq!(authority.valid(), 0);
    running.stop().await.expect("it stops in order");

    let key: Vec<&str> = text(&secret, "tls.key").lines().filter(|line| !line.starts_with("---")).collect();
    let events = Api::<Event>::namespaced(&cluster.client(), "default").list(&ListOptions::default()).await;
    let events = format!("{:?}", events.expect("it answers").items);
    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
    assert!(log.contains("certificate"), "the log is not captured");
    for public in [log, events, format!("{secret:?}"), format!("{certificate:?}")] {
        assert!(!public.contains("PRIVATE KEY") && !public.contains(key[0]), "the key is in {public}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_in_time_with_exactly_these_permissions() {
    let authority = Authority::new();
    let (cluster, running, audit) = start(authority.in_memory()).await;
    Api::<Certificate>::namespaced(&cluster.client(), "default").create(&web()).await.expect("it is valid");
    let first = cluster.eventually("default", "web", is_ready("True", "Issued")).await;
    sleep(6 * MINUTE).await;
    assert_eq!(authority.valid(), 1);

    // At the time of the renewal the authority is down. The old certificate is still valid.
    authority.fail(&[500; 1000]);
    cluster.eventually("default", "web", is_ready("True", "IssuingFailed")).await;
    let expired = cluster.eventually("default", "web", is_ready("False", "IssuingFailed")).await;
    assert_eq!(expired.status.expect("a status").not_after, first.status.clone().expect("a status").not_after);
    authority.fail(&[]);
    let renewed = cluster.eventually("default", "web", is_ready("True", "Issued")).await;
    assert!(renewed.status.expect("a status").not_after > first.status.expect("a status").not_after);
    assert_eq!(authority.valid(), 2);

    // A deleted Secret is issued again, with another key.
    let secrets = Api::<Secret>::namespaced(&cluster.client(), "default");
    secrets.delete("web-tls").await.expect("it is there");
    cluster.eventually("default", "web-tls", |_: &Secret| true).await;
    assert_eq!(authority.valid(), 3);
    running.stop().await.expect("it stops in order");
    audit.assert_exact(RBAC);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_repeated_until_the_spec_changes() {
    let authority = Authority::new();
    authority.fail(&[422]);
    let (cluster, running, _) = start(authority.in_memory()).await;
    let certificates = Api::<Certificate>::namespaced(&cluster.client(), "default");
    certificates.create(&web()).await.expect("it is valid");
    let mut certificate = cluster.eventually("default", "web", is_ready("False", "IssuingFailed")).await;
    sleep(10 * MINUTE).await;
    assert_eq!(authority.requests(), 1);
    certificate.spec.dns_names = vec!["other.example.com".to_owned()];
    certificates.update(&certificate).await.expect("nobody else writes it");
    cluster.eventually("default", "web", is_ready("True", "Issued")).await;
    running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_else_is_kept() {
    let authority = Authority::new();
    let (cluster, running, _) = start(authority.in_memory()).await;
    let secrets = Api::<Secret>::namespaced(&cluster.client(), "default");
    let mut foreign = Secret::default();
    foreign.set_name("web-tls");
    let foreign = secrets.create(&foreign).await.expect("it is valid");
    let certificates = Api::<Certificate>::namespaced(&cluster.client(), "default");
    certificates.create(&web()).await.expect("it is valid");
    cluster.eventually("default", "web", is_ready("False", "IssuingFailed")).await;
    sleep(7 * MINUTE).await;
    assert_eq!(secrets.get("web-tls").await.expect("it is there"), foreign);
    assert_eq!(authority.requests(), 0);
    // Nor does the deletion of the certificate delete it.
    certificates.delete("web").await.expect("it is there");
    cluster.eventually_gone::<Certificate>("default", "web").await;
    sleep(MINUTE).await;
    assert_eq!(secrets.get("web-tls").await.expect("it is there"), foreign);
    running.stop().await.expect("it stops in order");
}
