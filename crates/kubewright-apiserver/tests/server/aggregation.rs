//! APIServices, and API servers behind them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::{ByteString, Value};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::client::{Client, server, text};
use crate::custom::{DEFINITIONS, definition};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const VERSION: &str = r#"{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}"#;

/// Waits until a field of an object has this value.
async fn until(client: &mut Client, path: &str, field: &str, want: &str) -> Value {
    for _ in 0..1000 {
        let (_, object) = client.call("GET", path, "").await;
        if text(&object, field) == want {
            return object;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{}", client.call("GET", path, "").await.1)
}

fn condition(object: &Value) -> [String; 3] {
    let conditions = object.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let condition = conditions.and_then(|list| list.first()).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| text(&condition, field))
}

#[tokio::test]
async fn every_served_version_has_an_api_service() {
    let (_server, mut client) = server().await;
    let (_, apps) = client.call("GET", &format!("{API_SERVICES}/v1.apps"), "").await;
    assert_eq!(
        text(&apps, "spec"),
        r#"{"group":"apps","groupPriorityMinimum":17800,"version":"v1","versionPriority":15}"#
    );
    assert_eq!(text(&apps, "metadata/labels"), r#"{"kube-aggregator.kubernetes.io/automanaged":"onstart"}"#);
    assert_eq!(condition(&apps), ["True", "Local", "Local APIServices are always available"]);
    assert_eq!(client.call("GET", &format!("{API_SERVICES}/v1."), "").await.0, 200);
    // The group of APIServices itself has none, as in a real cluster.
    assert_eq!(client.call("GET", &format!("{API_SERVICES}/v1.apiregistration.k8s.io"), "").await.0, 404);
}

#[tokio::test]
async fn api_services_of_custom_resources_follow_their_definitions() {
    let (_server, mut client) = server().await;
    assert_eq!(client.call("POST", DEFINITIONS, &definition(VERSION)).await.0, 201);
    let path = format!("{API_SERVICES}/v1.shop.example.com");
    let created = until(&mut client, &path, "spec/versionPriority", "100").await;
    assert_eq!(text(&created, "spec/groupPriorityMinimum"), "1000");
    until(&mut client, &path, "metadata/labels", r#"{"kube-aggregator.kubernetes.io/automanaged":"true"}"#).await;
    // Changes and deletions are undone.
    assert_eq!(client.call("PATCH", &path, r#"{"spec":{"versionPriority":7}}"#).await.0, 200);
    until(&mut client, &path, "spec/versionPriority", "100").await;
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    client.until(&path, 200).await;
    assert_eq!(client.call("DELETE", &format!("{DEFINITIONS}/widgets.shop.example.com"), "").await.0, 200);
    client.until(&path, 404).await;
}

#[tokio::test]
async fn an_api_service_of_a_user_takes_over_the_version_of_a_definition() {
    let (_server, mut client) = server().await;
    let service = api_service("v1", "shop.example.com", 443, "");
    assert_eq!(client.call("POST", API_SERVICES, &service).await.0, 201);
    assert_eq!(client.call("POST", DEFINITIONS, &definition(VERSION)).await.0, 201);
    let path = format!("{API_SERVICES}/v1.shop.example.com");
    let left = until(&mut client, &path, "status/conditions/0", "").await;
    assert_eq!(text(&left, "spec/service/name"), "backend");
    assert_eq!(client.call("GET", "/apis/shop.example.com/v1/widgets", "").await.0, 503);
}

/// An APIService for `default/backend`. `bundle` is in base64.
fn api_service(version: &str, group: &str, port: u16, bundle: &str) -> String {
    let bundle = if bundle.is_empty() { String::new() } else { format!(r#","caBundle":"{bundle}""#) };
    format!(
        r#"{{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{{"name":"{version}.{group}"}},
        "spec":{{"group":"{group}","version":"{version}","groupPriorityMinimum":1000,"versionPriority":15,
        "service":{{"namespace":"default","name":"backend","port":{port}}}{bundle}}}}}"#
    )
}

#[tokio::test]
async fn an_unavailable_server_is_reported_with_the_reason() {
    let (_server, mut client) = server().await;
    let path = format!("{API_SERVICES}/v1.far.example.com");
    assert_eq!(client.call("POST", API_SERVICES, &api_service("v1", "far.example.com", 443, "")).await.0, 201);
    let reason = async |client: &mut Client, want: &str| {
        for _ in 0..1000 {
            let [status, reason, message] = condition(&client.call("GET", &path, "").await.1);
            if reason == want {
                assert_eq!(status, "False");
                return message;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{}", client.call("GET", &path, "").await.1)
    };
    let message = reason(&mut client, "ServiceNotFound").await;
    assert_eq!(message, r#"service/backend in "default" is not present"#);
    let service =
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"backend"},"spec":{"ports":[{"port":80}]}}"#;
    assert_eq!(client.call("POST", SERVICES, service).await.0, 201);
    let message = reason(&mut client, "ServicePortError").await;
    assert_eq!(message, r#"service/backend in "default" is not listening on port 443"#);
    let ports = r#"{"spec":{"ports":[{"port":443}]}}"#;
    assert_eq!(client.call("PATCH", &format!("{SERVICES}/backend"), ports).await.0, 200);
    let message = reason(&mut client, "EndpointsNotFound").await;
    assert_eq!(message, r#"cannot find endpointslices for service/backend in "default""#);

    assert_eq!(client.call("GET", "/apis/far.example.com/v1/things", "").await.0, 503);
    // Discovery lists the group, and its version as stale.
    let (code, group) = client.call("GET", "/apis/far.example.com", "").await;
    assert_eq!((code, text(&group, "preferredVersion/version")), (200, "v1".to_owned()));
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    client.until("/apis/far.example.com", 404).await;
}

/// A request as the aggregated server saw it.
#[derive(Debug, Default)]
struct Seen {
    url: String,
    headers: Vec<(String, String)>,
    body: String,
    has_certificate: bool,
}

/// An API server with one resource, behind TLS that asks for the client certificate of the front
/// proxy.
struct Backend {
    address: SocketAddr,
    bundle: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Sends the frames of watches.
    events: mpsc::Sender<Bytes>,
}

impl Backend {
    async fn start(front_proxy_authority: &str) -> Backend {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["backend.default.svc".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(front_proxy_authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_client_cert_verifier(verifier.build().unwrap());
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let tls = tls.with_single_cert(vec![certificate.der().clone()], private).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (events, frames) = mpsc::channel(4);
        let (seen, frames) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::new(Mutex::new(Some(frames))));
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(socket).await else { continue };
                let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                let (noted, frames) = (Arc::clone(&noted), Arc::clone(&frames));
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (noted, frames) = (Arc::clone(&noted), Arc::clone(&frames));
                    async move { answer(request, has_certificate, &noted, &frames).await }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        let bundle = ByteString::from(certificate.pem().as_str()).to_base64();
        Backend { address, bundle, seen, events }
    }

    /// The last request that was not a check.
    fn last(&self) -> Seen {
        let mut seen = self.seen.lock().unwrap();
        seen.retain(|seen| seen.url != "/apis/far.example.com/v1");
        seen.pop().expect("a request")
    }
}

type Frames = Mutex<Option<mpsc::Receiver<Bytes>>>;

async fn answer(
    request: Request<Incoming>,
    has_certificate: bool,
    noted: &Mutex<Vec<Seen>>,
    frames: &Frames,
) -> Result<Response<BoxBody<Bytes, std::io::Error>>, hyper::Error> {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
    let (url, headers) = (request.uri().to_string(), headers.collect());
    let body = request.into_body().collect().await?.to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    let whole = |text: &'static str| Full::from(text).map_err(|never| match never {}).boxed();
    let body_of_answer = if url == "/apis/far.example.com/v1" {
        whole(
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"far.example.com/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","watch"]}]}"#,
        )
    } else if url.contains("watch=") {
        let mut frames = frames.lock().unwrap().take().expect("one watch");
        let stream = futures_util::stream::poll_fn(move |context| frames.poll_recv(context));
        let stream = futures_util::StreamExt::map(stream, |bytes| Ok(Frame::data(bytes)));
        BodyExt::boxed(StreamBody::new(stream))
    } else {
        whole(r#"{"kind":"Thing","metadata":{"name":"a"}}"#)
    };
    noted.lock().unwrap().push(Seen { url, headers, body, has_certificate });
    Ok(Response::builder()
        .status(202)
        .header("content-type", "application/json")
        .header("warning", "299 - \"far\"")
        .body(body_of_answer)
        .unwrap())
}

async fn served_with_tls() -> (RunningServer, Client, String) {
    let server = ApiServer::in_memory().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).start().await.unwrap();
    let mut client = Client::over(server.connect()).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (_, configuration) = client.call("GET", path, "").await;
    assert_eq!(text(&configuration, "data/requestheader-allowed-names"), r#"["front-proxy-client"]"#);
    (server, client, text(&configuration, "data/requestheader-client-ca-file"))
}

#[tokio::test]
async fn requests_are_forwarded_with_the_identity_of_the_caller() {
    let (_server, mut client, authority) = served_with_tls().await;
    let backend = Backend::start(&authority).await;
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"backend"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    assert_eq!(client.call("POST", SERVICES, service).await.0, 201);
    let body = api_service("v1", "far.example.com", backend.address.port(), &backend.bundle);
    assert_eq!(client.call("POST", API_SERVICES, &body).await.0, 201);
    let path = format!("{API_SERVICES}/v1.far.example.com");
    for _ in 0..1000 {
        if condition(&client.call("GET", &path, "").await.1)[1] == "Passed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (_, available) = client.call("GET", &path, "").await;
    assert_eq!(condition(&available), ["True", "Passed", "all checks passed"]);

    let things = "/apis/far.example.com/v1/namespaces/default/things";
    let (code, thing) = client.call("POST", &format!("{things}?x=1%2F2"), r#"{"kind":"Thing"}"#).await;
    assert_eq!((code, text(&thing, "kind").as_str()), (202, "Thing"));
    let seen = backend.last();
    assert_eq!((seen.url.as_str(), seen.body.as_str()), (format!("{things}?x=1%2F2").as_str(), r#"{"kind":"Thing"}"#));
    assert!(seen.has_certificate);
    let all = |name: &str| {
        seen.headers.iter().filter(|(have, _)| have == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(all("x-remote-user"), ["kubernetes-admin"]);
    assert_eq!(all("x-remote-group"), ["system:masters", "system:authenticated"]);
    assert_eq!(client.warnings("GET", &format!("{things}/a"), "").await.1, ["\"far\""]);

    // Discovery has its resources.
    let (_, resources) = client.call("GET", "/apis/far.example.com/v1", "").await;
    assert_eq!(text(&resources, "groupVersion"), "far.example.com/v1");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = Request::get("/apis").header("accept", accept).body(Full::default()).unwrap();
    let document = client.send(request).await.into_body().collect().await.unwrap().to_bytes();
    let document = String::from_utf8(document.to_vec()).unwrap();
    assert!(document.contains(r#""resource":"things","responseKind":"#), "{document}");

    // A watch is a stream.
    let request = Request::get(format!("{things}?watch=1")).body(Full::default()).unwrap();
    let mut stream = client.send(request).await.into_body();
    for text in ["{\"type\":\"ADDED\"}\n", "{\"type\":\"DELETED\"}\n"] {
        backend.events.send(Bytes::from(text)).await.unwrap();
        let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, text);
    }
}
