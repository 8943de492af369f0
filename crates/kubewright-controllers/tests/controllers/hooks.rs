//! The hooks controller with hooks on real sockets.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{ApiServer, Fault, RunningServer};
use kubewright_client::{Api, Client, Scope};
use kubewright_controllers::hooks::{
    self, CompositeController, CompositeControllerSpec, Hook, Hooks, ResourceRule, Webhook,
};
use kubewright_controllers::{ControllerContext, Error};
use kubewright_core::options::Patch;
use kubewright_core::{ByteString, DynamicObject, GroupVersionResource, Object, Value};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const DEFINITIONS: GroupVersionResource =
    GroupVersionResource::from_static("apiextensions.k8s.io", "v1", "customresourcedefinitions");
const GREETERS: GroupVersionResource = GroupVersionResource::from_static("example.com", "v1", "greeters");

const GREETER: &str = r#"{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "greeters.example.com"},
  "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Greeter", "plural": "greeters"},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema":
      {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

/// A recorded request of a hook.
type Asked = Arc<Mutex<Vec<Value>>>;

/// A hook with the responses of `answer`.
struct HookServer {
    webhook: Webhook,
    asked: Asked,
    _task: AbortOnDropHandle<()>,
}

impl HookServer {
    async fn start(is_secure: bool, answer: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let (asked, answer) = (Asked::default(), Arc::new(answer));
        let noted = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, answer, acceptor) = (noted.clone(), answer.clone(), acceptor.clone());
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (noted, answer) = (noted.clone(), answer.clone());
                    async move {
                        assert_eq!(request.uri().path(), "/sync");
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let question = Value::from_json(&body).unwrap();
                        let answered = answer(&question);
                        noted.lock().unwrap().push(question);
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answered))))
                    }
                });
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    if is_secure {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    } else {
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        let (scheme, bundle) = if is_secure {
            ("https", Some(ByteString::from(made.cert.pem().as_bytes()).to_base64()))
        } else {
            ("http", None)
        };
        let webhook = Webhook { url: format!("{scheme}://{address}/sync"), ca_bundle: bundle, timeout_seconds: None };
        HookServer { webhook, asked, _task: AbortOnDropHandle::new(task) }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// A server with greeters, and a running hooks controller.
struct Fixture {
    server: RunningServer,
    client: Client,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Fixture {
    async fn start() -> Self {
        let server = ApiServer::in_memory().start().await.unwrap();
        let client = server.client();
        let definitions = Api::<DynamicObject>::new(&client, DEFINITIONS, Scope::Cluster);
        definitions.create(&GREETER.parse().unwrap()).await.unwrap();
        definitions.create(&hooks::definition()).await.unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (context, stop) = (ControllerContext::new(&client).workers(2), stop.clone());
            async move { hooks::run(&context, &stop).await }
        });
        Fixture { server, client, stop, task }
    }

    async fn declare(&self, sync: &HookServer, finalize: Option<&HookServer>) {
        let hook = |server: &HookServer| Hook { webhook: server.webhook.clone() };
        let rule = |api_version: &str, resource: &str| ResourceRule {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
        };
        let spec = CompositeControllerSpec {
            parent_resource: rule("example.com/v1", "greeters"),
            child_resources: vec![rule("v1", "configmaps")],
            hooks: Hooks { sync: hook(sync), finalize: finalize.map(hook) },
            resync_period_seconds: None,
        };
        let declared = CompositeController::new("greeters", spec);
        Api::<CompositeController>::all(&self.client).create(&declared).await.unwrap();
    }

    fn greeters(&self) -> Api<DynamicObject> {
        Api::new(&self.client, GREETERS, Scope::Namespace("default".into()))
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(&self.client, "default")
    }

    async fn greet(&self, name: &str, names: &str) {
        let json = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Greeter","metadata":{{"name":"{name}"}},"spec":{{"names":{names}}}}}"#
        );
        self.greeters().create(&json.parse().unwrap()).await.unwrap();
    }

    async fn names(&self, name: &str, names: &str) {
        let patch = format!(r#"{{"spec":{{"names":{names}}}}}"#);
        self.greeters().patch(name, Patch::Merge(patch.into_bytes())).await.unwrap();
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.server.stop().await;
    }
}

async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(120), "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// One config map per name, and the previous number of config maps.
fn greetings(question: &Value) -> String {
    let parent = question.get("parent").unwrap();
    let parent_name = parent.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str).unwrap();
    let names = parent.get("spec").and_then(|spec| spec.get("names")).and_then(Value::as_array).unwrap();
    let child = |name: &Value| {
        let name = name.as_str().unwrap();
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{parent_name}-{name}"}},"data":{{"text":"hello {name}"}}}}"#
        )
    };
    let children: Vec<_> = names.iter().map(child).collect();
    let had = question.get("children").and_then(|children| children.get("ConfigMap.v1")).and_then(Value::as_object);
    let had = had.map_or(0, |had| had.len());
    format!(r#"{{"status":{{"had":{had}}},"children":[{}]}}"#, children.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_over_tls_determines_the_children() {
    let fixture = Fixture::start().await;
    let hook = HookServer::start(true, greetings).await;
    fixture.declare(&hook, None).await;
    fixture.greet("a", r#"["ann","bob"]"#).await;
    let (maps, greeters) = (fixture.maps(), fixture.greeters());
    let text = async |name: &str| maps.get_opt(name).await.unwrap().and_then(|map| map.data.get("text").cloned());
    eventually("two children are there", async || text("a-ann").await.is_some() && text("a-bob").await.is_some()).await;
    let parent = greeters.get("a").await.unwrap();
    let child = maps.get("a-ann").await.unwrap();
    assert_eq!(child.metadata.owner_references[0].uid, parent.uid());
    assert_eq!(child.metadata.owner_references[0].controller, Some(true));
    eventually("the status tells what the hook saw last", async || {
        let parent = greeters.get("a").await.unwrap();
        parent.get(&["status", "had"]).and_then(|had| had.as_i64()) == Some(2)
            && parent.get(&["status", "observedGeneration"]).and_then(|seen| seen.as_i64()) == Some(1)
    })
    .await;

    // Undesired children are deleted, new ones created, and changed ones restored.
    fixture.names("a", r#"["bob","eve"]"#).await;
    eventually("ann went and eve came", async || text("a-ann").await.is_none() && text("a-eve").await.is_some()).await;
    maps.patch("a-bob", Patch::Merge(r#"{"data":{"text":"bye"}}"#.into())).await.unwrap();
    eventually("bob is greeted again", async || text("a-bob").await.as_deref() == Some("hello bob")).await;
    maps.delete("a-eve").await.unwrap();
    eventually("eve is back", async || text("a-eve").await.is_some()).await;

    // No calls and no writes without events.
    eventually("it comes to rest", async || {
        let version = |map: ConfigMap| map.resource_version().to_owned();
        let first = (hook.asked(), version(maps.get("a-bob").await.unwrap()));
        sleep(Duration::from_secs(1)).await;
        first == (hook.asked(), version(maps.get("a-bob").await.unwrap()))
    })
    .await;

    let declared = Api::<CompositeController>::all(&fixture.client);
    let status = declared.get("greeters").await.unwrap().status.unwrap_or_default();
    assert!(status.is_working && status.message.is_none(), "{status:?}");
    declared.delete("greeters").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let before = hook.asked();
    fixture.names("a", r#"[]"#).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(hook.asked(), before, "a controller whose declaration is gone does nothing more");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_is_deleted_when_its_finalize_hook_is_done() {
    let fixture = Fixture::start().await;
    let sync = HookServer::start(false, greetings).await;
    // Returns no children, and is finalized when none is left.
    let finalize = HookServer::start(false, |question| {
        let children = question.get("children").and_then(|children| children.get("ConfigMap.v1"));
        let is_empty = children.and_then(Value::as_object).is_some_and(|children| children.is_empty());
        format!(r#"{{"children":[],"finalized":{is_empty},"resyncAfterSeconds":0.1}}"#)
    })
    .await;
    fixture.declare(&sync, Some(&finalize)).await;
    fixture.greet("a", r#"["ann"]"#).await;
    let (maps, greeters) = (fixture.maps(), fixture.greeters());
    eventually("the child is there", async || maps.get_opt("a-ann").await.unwrap().is_some()).await;
    let finalizers = greeters.get("a").await.unwrap().metadata.finalizers;
    assert_eq!(finalizers[0], "hooks.kubewright.dev/greeters");
    greeters.delete("a").await.unwrap();
    eventually("both are gone", async || {
        greeters.get_opt("a").await.unwrap().is_none() && maps.get_opt("a-ann").await.unwrap().is_none()
    })
    .await;
    let first = finalize.asked.lock().unwrap()[0].clone();
    assert_eq!(first.get("finalizing").and_then(Value::as_bool), Some(true));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_appear_in_the_controllers_status() {
    let fixture = Fixture::start().await;
    let answers = |question: &Value| {
        let parent = question.get("parent").and_then(|parent| parent.get("metadata")).unwrap();
        match parent.get("name").and_then(Value::as_str) {
            Some("stranger") => {
                r#"{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"taken"}}]}"#.to_owned()
            }
            _ => r#"{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}"#.to_owned(),
        }
    };
    let hook = HookServer::start(false, answers).await;
    let mut taken = ConfigMap::default();
    taken.metadata.name = Some("taken".into());
    fixture.maps().create(&taken).await.unwrap();
    fixture.declare(&hook, None).await;
    let declared = Api::<CompositeController>::all(&fixture.client);
    let message = async || declared.get("greeters").await.unwrap().status.unwrap_or_default().message;
    fixture.greet("stranger", "[]").await;
    eventually("somebody else's object is left alone", async || {
        message().await.is_some_and(|text| text.contains("default/taken exists and has another controller"))
    })
    .await;
    assert!(fixture.maps().get("taken").await.unwrap().metadata.owner_references.is_empty());
    fixture.greeters().delete("stranger").await.unwrap();
    fixture.greet("kind", "[]").await;
    eventually("a kind that was not declared is refused", async || {
        message().await.is_some_and(|text| text.contains("which is not among childResources"))
    })
    .await;
    let spec = r#"{"spec":{"parentResource":{"apiVersion":"example.com/v1","resource":"unicorns"}}}"#;
    declared.patch("greeters", Patch::Merge(spec.into())).await.unwrap();
    eventually("a parent that is not served is told", async || {
        message().await.is_some_and(|text| text.contains("no resource unicorns of example.com/v1"))
    })
    .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_cache_does_not_show_yet_is_not_taken_over() {
    let fixture = Fixture::start().await;
    let hook = HookServer::start(false, greetings).await;
    fixture.declare(&hook, None).await;
    let declared = Api::<CompositeController>::all(&fixture.client);
    let status = async || declared.get("greeters").await.unwrap().status.unwrap_or_default();
    eventually("the controller works", async || status().await.is_working).await;
    let faults = fixture.server.faults();
    faults.inject(Fault::answer(500).verb("watch").resource("configmaps"));
    faults.inject(Fault::answer(500).verb("list").resource("configmaps"));
    faults.cut_watches();
    let mut foreign = ConfigMap::default();
    foreign.set_name("a-ann");
    foreign.data.insert("secret", "mine".into());
    let before = fixture.maps().create(&foreign).await.unwrap();
    fixture.greet("a", r#"["ann"]"#).await;
    eventually("it is reported", async || {
        status().await.message.is_some_and(|text| text.contains("a-ann exists and has another controller"))
    })
    .await;
    assert_eq!(fixture.maps().get("a-ann").await.unwrap(), before);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_hook_no_longer_returns_is_removed() {
    let fixture = Fixture::start().await;
    let hook = HookServer::start(false, |question| {
        let names = question.get("parent").and_then(|parent| parent.get("spec")).and_then(|spec| spec.get("names"));
        let data: Vec<_> =
            names.and_then(Value::as_array).unwrap().iter().map(|name| format!("{name}:\"x\"")).collect();
        let metadata = r#""apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child"}"#;
        format!(r#"{{"children":[{{{metadata},"data":{{{}}}}}]}}"#, data.join(","))
    })
    .await;
    fixture.declare(&hook, None).await;
    fixture.greet("a", r#"["ann","bob"]"#).await;
    let keys = async || {
        let map = fixture.maps().get_opt("child").await.unwrap().unwrap_or_default();
        map.data.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    };
    eventually("both are there", async || keys().await == ["ann", "bob"]).await;
    fixture.maps().patch("child", Patch::Merge(r#"{"data":{"own":"y"}}"#.into())).await.unwrap();
    fixture.names("a", r#"["bob"]"#).await;
    eventually("one is left, and that of somebody else", async || keys().await == ["bob", "own"]).await;
    fixture.names("a", r#"["bob","eve"]"#).await;
    eventually("another one comes", async || keys().await == ["bob", "eve", "own"]).await;
    fixture.stop().await;
}
