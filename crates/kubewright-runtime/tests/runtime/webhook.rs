//! Webhooks over real TLS: admission by the embedded server, conversion, certificate rotation.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kubewright_api::apiextensions::v1::{CustomResourceDefinition, WebhookClientConfig};
use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::RunningServer;
use kubewright_client::Api;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::options::{ApplyOptions, ListOptions, Patch, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{ByteString, Decoder, Kind, Object, Value};
use kubewright_runtime::certificates::ServingCertificate;
use kubewright_runtime::custom::{CustomResource, Versions};
use kubewright_runtime::election::LeaderElectionOptions;
use kubewright_runtime::webhook::{
    AdmissionRequest, AdmissionResponse, Converter, Operation, WebhookError, WebhookServer, Webhooks, mutate_path,
    validate_path,
};
use kubewright_runtime::{LeaderElector, Manager, ManagerOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{config_map, config_maps, server};

/// A certificate in files, removed on drop.
pub struct Files {
    directory: PathBuf,
    /// The certificate authority of clients.
    pub authority: String,
}

impl Files {
    pub fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("kubewright-webhook-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut files = Files { directory, authority: String::new() };
        files.renew();
        files
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Replaces the certificate.
    fn renew(&mut self) {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        self.authority = made.cert.pem();
        std::fs::write(self.file("tls.crt"), &self.authority).unwrap();
        std::fs::write(self.file("tls.key"), made.signing_key.serialize_pem()).unwrap();
    }

    fn certificate(&self) -> ServingCertificate {
        ServingCertificate::files(self.file("tls.crt"), self.file("tls.key"))
    }

    pub fn server(&self, webhooks: Webhooks) -> WebhookServer {
        WebhookServer::new(([127, 0, 0, 1], 0).into(), self.certificate(), webhooks)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A review of a deletion.
pub const DELETION: &str =
    r#"{"request":{"uid":"1","operation":"DELETE","kind":{"group":"","version":"v1","kind":"ConfigMap"}}}"#;

/// A webhook server without a manager.
pub struct Served {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), WebhookError>>,
}

impl Served {
    pub async fn start(server: WebhookServer) -> Self {
        let (tell, told) = oneshot::channel();
        let (server, stop) = (server.tell_address(tell), CancellationToken::new());
        let stopped = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { server.run(&stopped).await }));
        Served { address: told.await.unwrap(), stop, task }
    }
}

/// A connection to a server whose certificate is `authority`.
pub async fn connect(address: SocketAddr, authority: &str) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
    let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    tls.connect(name, socket).await.map_err(|error| error.to_string())
}

/// Posts JSON to a server whose certificate is `authority`, and returns status code and body.
pub async fn post(address: SocketAddr, authority: &str, path: &str, body: &str) -> Result<(u16, String), String> {
    let mut stream = connect(address, authority).await?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.and(stream.flush().await).map_err(|error| error.to_string())?;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    Ok((head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no code")?, body.to_owned()))
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    let found = path.split('/').try_fold(value, |value, key| value.get(key));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// Registers `path` for config maps of the namespace `default`.
async fn register<K: Kind + Message + Default>(
    server: &RunningServer,
    address: SocketAddr,
    authority: &str,
    path: &str,
) {
    let bundle = ByteString::from(authority).to_base64();
    let json = format!(
        r#"{{"metadata":{{"name":"w"}},"webhooks":[{{"name":"w.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
        "clientConfig":{{"url":"https://{address}{path}","caBundle":"{bundle}"}},
        "namespaceSelector":{{"matchLabels":{{"kubernetes.io/metadata.name":"default"}}}},
        "rules":[{{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}}]}}]}}"#
    );
    let configuration: K = Decoder::new().json(json.as_bytes()).unwrap();
    Api::<K>::all(&server.client()).create(&configuration).await.unwrap();
}

#[tokio::test]
async fn the_server_calls_webhooks_before_a_write() {
    let (server, files) = (server().await, Files::new("admission"));
    let (tell, told) = oneshot::channel();
    let (tell_endpoints, endpoints) = oneshot::channel();
    let options = ManagerOptions::default().listen(([127, 0, 0, 1], 0).into()).tell_address(tell_endpoints);
    let mut manager = Manager::new(&server.client(), options);
    let webhooks = Webhooks::new()
        .admit(mutate_path::<ConfigMap>(), |request: AdmissionRequest<ConfigMap>| async move {
            request.mutate(|map| {
                map.metadata.labels.insert("by", request.context.user.username.clone().unwrap_or_default());
                map.data.remove("secret");
            })
        })
        .admit(validate_path::<ConfigMap>(), |request: AdmissionRequest<ConfigMap>| async move {
            let value = |map: &Option<ConfigMap>| map.as_ref().and_then(|map| map.data.get("value").cloned());
            match (request.context.operation, value(&request.object).as_deref()) {
                (Operation::Delete, _) if value(&request.old_object).as_deref() == Some("keep") => {
                    AdmissionResponse::refuse(409, "it is to be kept")
                }
                (_, Some("bad")) => AdmissionResponse::deny(format!("{} is bad", request.context.name)),
                (_, Some("panic")) => panic!("oh no"),
                _ => AdmissionResponse::allow(),
            }
        });
    manager.add_webhooks("webhooks", files.server(webhooks).tell_address(tell)).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    let address = told.await.unwrap();
    assert_eq!(mutate_path::<ConfigMap>(), "/mutate--v1-configmap");
    register::<MutatingWebhookConfiguration>(&server, address, &files.authority, &mutate_path::<ConfigMap>()).await;
    register::<ValidatingWebhookConfiguration>(&server, address, &files.authority, &validate_path::<ConfigMap>()).await;

    let maps = config_maps(&server);
    let with = |name: &str, value: &str| {
        let mut map = config_map(name);
        map.data.insert("value", value.into());
        map.data.insert("secret", "42".into());
        map
    };
    let made = maps.create(&with("a", "keep")).await.unwrap();
    assert_eq!(made.labels().get("by"), Some("kubernetes-admin"));
    assert_eq!((made.data.get("value").map(|text| &**text), made.data.get("secret")), (Some("keep"), None));
    let refusal = async |name: &str, value: &str| {
        let error = maps.create(&with(name, value)).await.unwrap_err();
        let status = error.status().unwrap().clone();
        (status.code.unwrap(), status.message.unwrap().to_string())
    };
    let denied = "admission webhook \"w.example.com\" denied the request: ";
    assert_eq!(refusal("b", "bad").await, (403, format!("{denied}b is bad")));
    let (code, message) = refusal("c", "panic").await;
    assert!(code == 500 && message.contains("the handler panicked: oh no"), "{code} {message}");
    let kept = maps.delete("a").await.unwrap_err();
    assert_eq!(kept.status().unwrap().code, Some(409));
    assert!(maps.get_opt("a").await.unwrap().is_some());

    // Health and metrics of the manager include it.
    let mut stream = TcpStream::connect(endpoints.await.unwrap()).await.unwrap();
    stream
        .write_all(
            b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\nGET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    for line in [
        "[+]webhooks ok",
        r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="403"} 1"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate--v1-configmap"} 0"#,
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_standby_serves_webhooks() {
    let (server, files) = (server().await, Files::new("standby"));
    let elector = |name: &str| {
        LeaderElector::new(&server.client(), "default", "manager", name, LeaderElectionOptions::default()).unwrap()
    };
    let stop = CancellationToken::new();
    let leadership = elector("leader").acquire(&stop).await.expect("nobody else wants it");
    let (tell, told) = oneshot::channel();
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.elect(elector("standby"));
    let admits = |_: AdmissionRequest<ConfigMap>| async { AdmissionResponse::allow() };
    let webhooks = files.server(Webhooks::new().admit("/x", admits)).tell_address(tell);
    manager.add_webhooks("webhooks", webhooks).unwrap();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    let address = told.await.unwrap();
    let (code, body) = post(address, &files.authority, "/x", DELETION).await.unwrap();
    assert!(code == 200 && body.contains("\"allowed\":true"), "{code} {body}");
    assert!(leadership.is_leading());
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn responses_carry_the_handlers_decision_and_invalid_requests_are_rejected() {
    let files = Files::new("answers");
    let webhooks = Webhooks::new().admit("/x", |request: AdmissionRequest<ConfigMap>| async move {
        let context = &request.context;
        assert!(context.dry_run && context.subresource == "status" && context.kind.kind == "ConfigMap");
        AdmissionResponse::allow().warning("old").audit_annotation("who", "me")
    });
    let served = Served::start(files.server(webhooks)).await;
    let review = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"UPDATE",
        "kind":{"group":"","version":"v1","kind":"ConfigMap"},"subResource":"status","dryRun":true,
        "object":{"metadata":{"name":"a"}},"oldObject":{"metadata":{"name":"a"}}}}"#;
    let (code, body) = post(served.address, &files.authority, "/x?timeout=10s", review).await.unwrap();
    let wanted = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u-1","allowed":true,
        "warnings":["old"],"auditAnnotations":{"who":"me"}}}"#;
    assert_eq!((code, Value::from_json(body.as_bytes()).unwrap()), (200, Value::from_json(wanted.as_bytes()).unwrap()));
    assert_eq!(post(served.address, &files.authority, "/y", review).await.unwrap().0, 404);
    // As in controller-runtime, the answer is always a review.
    let of_other_kind = review.replace("ConfigMap", "Secret");
    let malformed = review.replace(r#""object":{"metadata""#, r#""object":{"data":7,"metadata""#);
    let too_large = format!("{review}{}", " ".repeat(7 << 20));
    for (sent, code, uid, why) in [
        ("", 400, "", "request body is empty"),
        ("{}", 400, "", "the review has no request"),
        ("nonsense", 400, "", "expected"),
        (&*too_large, 413, "", "request entity is too large; limit is 7340032 bytes"),
        (&*of_other_kind, 400, "u-1", "expected an object of /v1, Kind=ConfigMap, got /v1, Kind=Secret"),
        (&*malformed, 400, "u-1", "object: "),
    ] {
        // The server may close the connection while a body is sent that is too large.
        let Ok((http, body)) = post(served.address, &files.authority, "/x", sent).await else {
            assert_eq!(code, 413);
            continue;
        };
        let answer = Value::from_json(body.as_bytes()).unwrap();
        assert_eq!((http, text(&answer, "kind"), text(&answer, "response/uid")), (200, "AdmissionReview", uid));
        let response = answer.get("response").unwrap();
        assert_eq!(response.get("allowed"), Some(&Value::Bool(false)));
        assert_eq!(response.get("status").and_then(|status| status.get("code")?.as_i64()), Some(code));
        assert!(text(&answer, "response/status/message").contains(why), "{body}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_taken_when_it_is_whole() {
    let mut files = Files::new("reload");
    let admits = |_: AdmissionRequest<ConfigMap>| async { AdmissionResponse::allow() };
    let certificate = files.certificate().reload_every(Duration::from_millis(20));
    let webhooks = Webhooks::new().admit("/x", admits);
    let served = Served::start(WebhookServer::new(([127, 0, 0, 1], 0).into(), certificate, webhooks)).await;
    let review = DELETION;
    let old = files.authority.clone();
    assert!(post(served.address, &old, "/x", review).await.is_ok());
    // A mismatched pair and invalid files are ignored.
    std::fs::write(files.file("tls.key"), "nothing").unwrap();
    sleep(Duration::from_millis(200)).await;
    assert!(post(served.address, &old, "/x", review).await.is_ok());
    files.renew();
    for _ in 0..500 {
        if post(served.address, &files.authority, "/x", review).await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(post(served.address, &files.authority, "/x", review).await.is_ok());
    assert!(post(served.address, &old, "/x", review).await.is_err());
    // At the start there is no previous certificate.
    std::fs::write(files.file("tls.crt"), "nothing").unwrap();
    let refused = files.server(Webhooks::new()).run(&CancellationToken::new()).await;
    assert!(matches!(refused, Err(WebhookError::Certificate(_))), "{refused:?}");
}

/// Puts a pipe in place of a file. A reader waits until the pipe is written, after `time`.
fn make_slow(file: &std::path::Path, time: Duration) -> std::thread::JoinHandle<()> {
    let (path, text) = (file.to_owned(), std::fs::read(file).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    std::thread::spawn(move || {
        std::thread::sleep(time);
        std::fs::write(path, text).unwrap();
    })
}

// With a single thread: reading a file on it would block all tasks.
#[tokio::test]
async fn a_slow_file_system_does_not_delay_requests() {
    let files = Files::new("slow");
    let ticks = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = || ticks.load(std::sync::atomic::Ordering::SeqCst);
    let counting = ticks.clone();
    let _ticking = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(5)).await;
            counting.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }));
    // At the start.
    let written = make_slow(&files.file("tls.key"), Duration::from_millis(500));
    let certificate = files.certificate().reload_every(Duration::from_millis(50));
    let served = Served::start(WebhookServer::new(([127, 0, 0, 1], 0).into(), certificate, Webhooks::new())).await;
    written.join().unwrap();
    assert!(count() >= 20, "{}", count());
    // When the file is checked for changes, the pipe is opened and read again.
    let before = count();
    sleep(Duration::from_millis(500)).await;
    assert!(count() >= before + 20, "{}", count() - before);
    served.stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), served.task).await.expect("it stops all the same").unwrap().unwrap();
    // Releases the reader, which would block the end of the runtime.
    let key = files.file("tls.key");
    std::fs::OpenOptions::new().read(true).write(true).open(key).unwrap();
}

#[tokio::test]
async fn a_question_in_hand_is_answered_before_the_end() {
    let files = Files::new("graceful");
    let (begun, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (tell, wait) = (begun.clone(), go.clone());
    let webhooks = Webhooks::new().admit("/x", move |_: AdmissionRequest<ConfigMap>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            AdmissionResponse::allow()
        }
    });
    let served = Served::start(files.server(webhooks)).await;
    let (address, authority) = (served.address, files.authority.clone());
    let asked = tokio::spawn(async move { post(address, &authority, "/x", DELETION).await });
    begun.notified().await;
    served.stop.cancel();
    sleep(Duration::from_millis(50)).await;
    go.notify_one();
    assert_eq!(asked.await.unwrap().unwrap().0, 200);
    served.task.await.unwrap().unwrap();
}

mod v1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
    #[resource(group = "example.com", version = "v1", kind = "Shelf", plural = "shelves", namespaced, not_stored)]
    pub struct ShelfSpec {
        pub width: String,
    }
}

mod v2 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
    #[resource(group = "example.com", version = "v2", kind = "Shelf", plural = "shelves", namespaced)]
    pub struct ShelfSpec {
        pub millimetres: u32,
    }
}

impl TryFrom<v1::Shelf> for v2::Shelf {
    type Error = std::num::ParseIntError;

    fn try_from(shelf: v1::Shelf) -> Result<Self, Self::Error> {
        assert_ne!(shelf.spec.width, "endless", "no shelf is");
        Ok(v2::Shelf { metadata: shelf.metadata, spec: v2::ShelfSpec { millimetres: shelf.spec.width.parse()? } })
    }
}

impl From<v2::Shelf> for v1::Shelf {
    fn from(shelf: v2::Shelf) -> Self {
        v1::Shelf { metadata: shelf.metadata, spec: v1::ShelfSpec { width: shelf.spec.millimetres.to_string() } }
    }
}

#[tokio::test]
async fn objects_are_converted_through_the_hub_version() {
    let files = Files::new("conversion");
    let converter = Converter::<v2::Shelf>::new().spoke::<v1::Shelf>();
    let served = Served::start(files.server(Webhooks::new().convert("/convert", converter))).await;
    let ask = async |desired: &str, objects: &str| {
        let review = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",
            "request":{{"uid":"u","desiredAPIVersion":"example.com/{desired}","objects":[{objects}]}}}}"#
        );
        let (code, body) = post(served.address, &files.authority, "/convert", &review).await.unwrap();
        assert_eq!(code, 200);
        let answer = Value::from_json(body.as_bytes()).unwrap();
        assert_eq!((text(&answer, "kind"), text(&answer, "response/uid")), ("ConversionReview", "u"));
        answer.get("response").unwrap().clone()
    };
    let old = |width: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Shelf","metadata":{{"name":"a","labels":{{"x":"y"}}}},"spec":{{"width":"{width}"}}}}"#
        )
    };
    let new = r#"{"apiVersion":"example.com/v2","kind":"Shelf","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"millimetres":70}}"#;
    let answer = ask("v2", &format!("{},{new}", old("30"))).await;
    assert_eq!(text(&answer, "result/status"), "Success");
    let converted = answer.get("convertedObjects").unwrap().as_array().unwrap();
    let millimetres = |object: &Value| object.get("spec").and_then(|spec| spec.get("millimetres")?.as_i64());
    assert_eq!(converted.iter().map(millimetres).collect::<Vec<_>>(), [Some(30), Some(70)]);
    assert_eq!((text(&converted[0], "apiVersion"), text(&converted[0], "metadata/labels/x")), ("example.com/v2", "y"));
    let answer = ask("v1", new).await;
    assert_eq!(text(&answer.get("convertedObjects").unwrap().as_array().unwrap()[0], "spec/width"), "70");
    for (desired, object, code, why) in [
        ("v2", old("wide"), 400, "invalid digit"),
        ("v3", old("1"), 400, "\"example.com/v3\" is not known"),
        ("v2", old("endless"), 500, "the conversion panicked: "),
    ] {
        let answer = ask(desired, &object).await;
        assert_eq!(text(&answer, "result/status"), "Failure");
        assert_eq!(answer.get("result").and_then(|result| result.get("code")?.as_i64()), Some(code));
        assert!(text(&answer, "result/message").contains(why), "{answer:?}");
        assert!(answer.get("convertedObjects").unwrap().as_array().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_review_of_a_long_list_is_converted_and_one_of_a_write_is_never_so_large() {
    let files = Files::new("large");
    let converter = Converter::<v2::Shelf>::new().spoke::<v1::Shelf>();
    let admits = |_: AdmissionRequest<ConfigMap>| async { AdmissionResponse::allow() };
    let webhooks = Webhooks::new().convert("/convert", converter).admit("/admit", admits);
    let served = Served::start(files.server(webhooks)).await;
    // Eight objects of one MiB each, like a converted list.
    let shelf = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Shelf","metadata":{{"name":"a","labels":{{"x":"{}"}}}},"spec":{{"width":"1"}}}}"#,
        "y".repeat(1 << 20)
    );
    let objects = vec![shelf; 8].join(",");
    let review = format!(r#"{{"request":{{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[{objects}]}}}}"#);
    let (code, body) = post(served.address, &files.authority, "/convert", &review).await.unwrap();
    assert_eq!(code, 200, "{body}");
    let answer = Value::from_json(body.as_bytes()).unwrap();
    assert_eq!(answer.get("response").unwrap().get("convertedObjects").unwrap().as_array().unwrap().len(), 8);
    // A larger review is rejected, or the connection is closed while it is sent.
    let refused = post(served.address, &files.authority, "/admit", &review).await;
    assert!(refused.is_err() || refused.as_ref().is_ok_and(|(_, body)| body.contains("too large")), "{refused:?}");
}

/// Both versions of shelves.
fn shelves() -> Versions<v2::Shelf> {
    Versions::new().with::<v1::Shelf>()
}

/// Defines shelves in both versions, converted by the webhook at this address.
async fn define_shelves(server: &RunningServer, url: &str, authority: &str) {
    let webhook = WebhookClientConfig {
        url: Some(url.into()),
        ca_bundle: Some(ByteString::from(authority)),
        ..WebhookClientConfig::default()
    };
    let definition = shelves().definition(webhook).unwrap();
    Api::<CustomResourceDefinition>::all(&server.client()).create(&definition).await.unwrap();
}

#[tokio::test]
async fn the_server_serves_every_version_through_the_webhook() {
    let (server, files) = (server().await, Files::new("served-conversion"));
    let converter = shelves().into_converter();
    let served = Served::start(files.server(Webhooks::new().convert("/convert", converter))).await;
    define_shelves(&server, &format!("https://{}/convert", served.address), &files.authority).await;
    let client = server.client();
    let (old, new) =
        (Api::<v1::Shelf>::namespaced(&client, "default"), Api::<v2::Shelf>::namespaced(&client, "default"));
    let started = new.list(&ListOptions::default()).await.unwrap().metadata.resource_version.unwrap();

    // Created in the version that is not stored, and read in both versions.
    let mut shelf = v1::Shelf { metadata: Default::default(), spec: v1::ShelfSpec { width: "30".into() } };
    shelf.metadata.name = Some("a".into());
    let made = old.create(&shelf).await.unwrap();
    assert_eq!(made.spec.width, "30");
    assert_eq!(new.get("a").await.unwrap().spec.millimetres, 30);
    let mut shelf = new.get("a").await.unwrap();
    shelf.spec.millimetres = 40;
    new.update(&shelf).await.unwrap();
    assert_eq!(old.get("a").await.unwrap().spec.width, "40");
    // A patch is of the version that it names.
    let patched = old.patch("a", Patch::Merge(br#"{"spec":{"width":"50"}}"#.to_vec())).await.unwrap();
    assert_eq!((patched.spec.width.as_str(), patched.metadata.generation), ("50", Some(3)));
    let listed = old.list(&ListOptions::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|shelf| shelf.spec.width.as_str()).collect::<Vec<_>>(), ["50"]);

    // A watch in the version that is not stored.
    let options = WatchOptions { resource_version: Some(started), ..WatchOptions::default() };
    let mut events = old.watch(&options).await.unwrap();
    let mut widths = Vec::new();
    while widths.len() < 3 {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(shelf) | WatchEvent::Modified(shelf) => widths.push(shelf.spec.width.to_string()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(widths, ["30", "40", "50"]);

    // Applied in one version, then in the other by another manager.
    let with = |width: &str| v1::Shelf {
        metadata: ObjectMeta { name: Some("b".into()), ..Default::default() },
        spec: v1::ShelfSpec { width: width.into() },
    };
    let applied = old.apply(&with("1"), &ApplyOptions::new("one")).await.unwrap();
    assert_eq!((applied.spec.width.as_str(), applied.metadata.generation), ("1", Some(1)));
    let applied = old.apply(&with("2"), &ApplyOptions::new("one")).await.unwrap();
    assert_eq!((applied.spec.width.as_str(), applied.metadata.generation), ("2", Some(2)));
    assert_eq!(new.get("b").await.unwrap().spec.millimetres, 2);
    let same = old.apply(&with("2"), &ApplyOptions::new("one")).await.unwrap();
    assert_eq!(same.metadata.resource_version, applied.metadata.resource_version);
    old.delete("b").await.unwrap();

    // An object that cannot be converted is not written.
    let mut wide = v1::Shelf { metadata: Default::default(), spec: v1::ShelfSpec { width: "wide".into() } };
    wide.metadata.name = Some("wide".into());
    let refused = old.create(&wide).await.unwrap_err();
    let status = refused.status().unwrap();
    let message = status.message.as_deref().unwrap();
    assert!(
        status.code == Some(500)
            && message.starts_with("conversion webhook for example.com/v1, Kind=Shelf failed: ")
            && message.contains("invalid digit"),
        "{status:?}"
    );
    assert!(new.get_opt("wide").await.unwrap().is_none());

    // Without the webhook, the stored version is still readable, and deletion works.
    served.stop.cancel();
    served.task.await.unwrap().unwrap();
    assert_eq!(new.get("a").await.unwrap().spec.millimetres, 50);
    let lost = old.get("a").await.unwrap_err();
    let message = lost.status().unwrap().message.clone().unwrap();
    assert!(
        message.starts_with("conversion webhook for example.com/v2, Kind=Shelf failed: Post \"https://127.0.0.1:")
            && message.contains("/convert?timeout=30s\": "),
        "{message}"
    );
    new.delete("a").await.unwrap();
    assert!(new.list(&ListOptions::default()).await.unwrap().items.is_empty());
}

#[test]
fn the_stored_version_and_lossless_conversions_are_declared_once() {
    let storage = |versions: Versions<v2::Shelf>| {
        let definition = versions.definition(WebhookClientConfig::default()).unwrap();
        let stored = definition.spec.versions.iter().filter(|version| version.storage);
        stored.map(|version| version.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(storage(shelves()), ["v2"]);
    assert_eq!(storage(shelves().stored_as::<v1::Shelf>()), ["v1"]);
    let unknown = Versions::<v2::Shelf>::new().stored_as::<v1::Shelf>().definition(WebhookClientConfig::default());
    assert_eq!(unknown.unwrap_err().to_string(), "0 versions are stored, instead of one");

    let shelf = |width: &str| v1::Shelf {
        metadata: ObjectMeta { name: Some("a".into()), ..Default::default() },
        spec: v1::ShelfSpec { width: width.into() },
    };
    shelves().check_round_trip(&shelf("30")).unwrap();
    let lossy = shelves().check_round_trip(&shelf("030")).unwrap_err().to_string();
    assert_eq!(lossy, r#"Shelf "a" changes when it is converted from v1 to v2 and back: {"spec":{"width":"30"}}"#);
    assert!(shelves().check_round_trip(&shelf("wide")).is_err());
}
