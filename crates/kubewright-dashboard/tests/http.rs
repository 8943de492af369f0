//! The API of the page over HTTP, with real controllers on the embedded server.

use std::net::SocketAddr;
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_core::options::ListOptions;
use kubewright_dashboard::{Dashboard, ManagerDashboard as _, RunningDashboard};
use kubewright_runtime::{Context, Manager, ManagerOptions, Outcome};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A manager whose controller reconciles config maps, and fails for those named `bad`.
struct Observed {
    _server: RunningServer,
    client: Client,
    dashboard: RunningDashboard,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Observed {
    async fn start(allows_actions: bool) -> Self {
        let server = ApiServer::in_memory().start().await.expect("it starts");
        let client = server.client();
        let mut manager = Manager::new(&client, ManagerOptions::default());
        let controller = manager.controller::<ConfigMap>("configmaps").reconciling(|map, _: Context| async move {
            if map.name() == "bad" { Err("it is bad".into()) } else { Ok(Outcome::Done) }
        });
        manager.add(controller).expect("a new name");
        let mut dashboard = Dashboard::new(&client).informers(manager.factory());
        for handle in manager.handles() {
            dashboard = dashboard.controller(handle);
        }
        if allows_actions {
            dashboard = dashboard.allow_actions();
        }
        let dashboard = dashboard.start().await.expect("a free port");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let running = tokio::spawn(async move { manager.run(&stopped).await.expect("it stops") });
        Observed { _server: server, client, dashboard, stop, running }
    }

    fn address(&self) -> SocketAddr {
        let rest = self.dashboard.url().strip_prefix("http://").expect("HTTP");
        rest.split('/').next().expect("a host").parse().expect("an address")
    }

    fn token(&self) -> &str {
        self.dashboard.url().split_once("token=").expect("a token").1
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let (code, body) = self.send("GET", path, &[("Authorization", &format!("Bearer {}", self.token()))], "").await;
        (code, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    async fn act(&self, name: &str, body: &str) -> (u16, String) {
        let token = format!("Bearer {}", self.token());
        self.send("POST", &format!("/api/actions/{name}"), &[("Authorization", &token)], body).await
    }

    /// Sends a request. A header `Host` replaces the right one.
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).await.expect("it listens");
        let host = self.address().to_string();
        let has_host = headers.iter().any(|(name, _)| *name == "Host");
        let host = (!has_host).then_some(("Host", &*host));
        let headers: String =
            headers.iter().copied().chain(host).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head[9..12].parse().expect("a code"), body.to_owned())
    }

    async fn create(&self, name: &str) {
        let mut map = ConfigMap::default();
        map.set_name(name);
        Api::<ConfigMap>::namespaced(&self.client, "default").create(&map).await.expect("it is created");
    }

    /// The detail of the controller, once `is_wanted`.
    async fn controller(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1000 {
            let (code, detail) = self.get("/api/controller?name=configmaps").await;
            if code == 200 && is_wanted(&detail) {
                return detail;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the controller never looks as wanted");
    }

    async fn stop(self) {
        self.dashboard.stop().await;
        self.stop.cancel();
        self.running.await.expect("it stops");
    }
}

#[tokio::test]
async fn the_pipeline_shows_informers_queues_and_reconciles_with_their_reasons() {
    let observed = Observed::start(false).await;
    observed.create("good").await;
    observed.create("bad").await;
    let detail = observed.controller(|detail| detail["errors"].as_u64() >= Some(2)).await;
    let recent = detail["recent"].as_array().expect("a list");
    let failed = recent.iter().find(|result| result["key"] == "default/bad").expect("it was reconciled");
    assert_eq!(failed["error"], "it is bad");
    assert!(failed["attempt"].as_u64() >= Some(2), "{failed}");
    let good = recent.iter().find(|result| result["key"] == "default/good").expect("it was reconciled");
    assert_eq!(good["error"], Value::Null);
    assert!(good["reasons"].as_str().is_some_and(|reasons| reasons.starts_with("configmaps default/good ")), "{good}");
    let (code, pipeline) = observed.get("/api/pipeline").await;
    assert_eq!(code, 200);
    let informer = &pipeline["informers"][0];
    assert_eq!((&informer["name"], &informer["state"]), (&"configmaps".into(), &"watching".into()));
    // The server has config maps of its own.
    let maps = Api::<ConfigMap>::all(&observed.client).list(&ListOptions::default()).await.expect("a list");
    assert_eq!(informer["objects"], maps.items.len());
    assert!(informer["resourceVersion"].as_str().is_some_and(|version| version != "0" && !version.is_empty()));
    assert_eq!(pipeline["controllers"][0]["name"], "configmaps");
    observed.stop().await;
}

#[tokio::test]
async fn an_object_has_versions_reconciles_events_and_yaml() {
    let observed = Observed::start(false).await;
    observed.create("good").await;
    observed.controller(|detail| detail["reconciles"].as_u64() >= Some(1)).await;
    let (code, object) = observed.get("/api/object?resource=cm&key=default/good").await;
    assert_eq!(code, 200, "{object}");
    assert_eq!((&object["kind"], &object["key"]), (&"ConfigMap".into(), &"default/good".into()));
    assert!(object["yaml"].as_str().is_some_and(|yaml| yaml.contains("name: good")), "{object}");
    assert_eq!(object["versions"][0]["change"], "created");
    assert_eq!(object["reconciles"].as_array().map(Vec::len), Some(1));
    let (code, why) = observed.get("/api/object?resource=nonsense&key=default/good").await;
    assert_eq!(code, 404, "{why}");
    let (code, why) = observed.get("/api/object?resource=cm&key=a/b/c").await;
    assert_eq!(code, 400, "{why}");
    assert!(why.as_str().is_some_and(|why| why.contains("a/b/c")), "{why}");
    observed.stop().await;
}

#[tokio::test]
async fn only_the_token_on_this_host_reads() {
    let observed = Observed::start(true).await;
    let bearer = format!("Bearer {}", observed.token());
    let token = ("Authorization", &*bearer);
    let port = observed.address().port();
    let local = format!("localhost:{port}");
    let foreign = format!("evil.example:{port}");
    for (path, headers, code) in [
        ("/", vec![], 200),
        ("/app.js", vec![], 200),
        ("/api/pipeline", vec![], 401),
        ("/api/pipeline", vec![("Authorization", "Bearer wrong")], 401),
        ("/api/pipeline", vec![token], 200),
        ("/api/pipeline", vec![token, ("Host", &*local)], 200),
        ("/api/pipeline", vec![token, ("Host", &*foreign)], 421),
        ("/", vec![("Host", "127.0.0.1")], 421),
        ("/nowhere", vec![token], 404),
    ] {
        let (have, body) = observed.send("GET", path, &headers, "").await;
        assert_eq!(have, code, "{path} {headers:?}: {body}");
        assert!(!body.contains(observed.token()), "{path}");
    }
    let (code, _) = observed.send("POST", "/api/actions/apply", &[token, ("Origin", "http://evil.example")], "").await;
    assert_eq!(code, 403);
    observed.stop().await;
}

#[tokio::test]
async fn actions_are_off_by_default() {
    let observed = Observed::start(false).await;
    observed.create("good").await;
    let (code, why) = observed.act("delete", r#"{"resource":"configmaps","key":"default/good"}"#).await;
    assert_eq!(code, 403, "{why}");
    assert_eq!(observed.get("/api/settings").await.1["allowsActions"], false);
    observed.stop().await;
}

#[tokio::test]
async fn actions_apply_scale_cordon_and_delete() {
    let observed = Observed::start(true).await;
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
";
    let (code, done) = observed.act("apply", deployment).await;
    assert_eq!(code, 200, "{done}");
    assert!(done.contains("Deployment web, Node n1 applied"), "{done}");
    let scale = r#"{"resource":"deployments","key":"default/web","replicas":3}"#;
    assert_eq!(observed.act("scale", scale).await.0, 200);
    let yaml = async |path: &str| observed.get(path).await.1["yaml"].as_str().unwrap_or_default().to_owned();
    let shown = yaml("/api/object?resource=deploy&key=default/web").await;
    assert!(shown.contains("replicas: 3"), "{shown}");
    assert_eq!(observed.act("cordon", r#"{"resource":"nodes","key":"n1","cordoned":true}"#).await.0, 200);
    assert!(yaml("/api/object?resource=nodes&key=n1").await.contains("unschedulable: true"));
    // The shown YAML can be applied again.
    let (code, done) = observed.act("apply", &shown.replace("replicas: 3", "replicas: 2")).await;
    assert_eq!(code, 200, "{done}");
    assert_eq!(observed.act("delete", r#"{"resource":"deployments","key":"default/web"}"#).await.0, 200);
    for (name, body, code) in [
        ("scale", r#"{"resource":"deployments","key":"default/web","replicas":-1}"#, 400),
        ("scale", r#"{"resource":"deployments","key":"default/gone","replicas":1}"#, 404),
        ("cordon", r#"{"resource":"deployments","key":"default/web","cordoned":true}"#, 400),
        ("delete", "{", 400),
        ("apply", "", 400),
        ("explode", "{\"resource\":\"a\",\"key\":\"b\"}", 404),
    ] {
        let (have, why) = observed.act(name, body).await;
        assert_eq!(have, code, "{name} {body}: {why}");
    }
    observed.stop().await;
}

#[tokio::test]
async fn the_stream_sends_snapshots_until_the_dashboard_stops() {
    let observed = Observed::start(false).await;
    let mut stream = TcpStream::connect(observed.address()).await.expect("it listens");
    let (host, token) = (observed.address(), observed.token());
    let request = format!("GET /api/stream?token={token} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    let mut buffer = vec![0; 64 << 10];
    while text.matches("data: {").count() < 3 {
        let read = stream.read(&mut buffer).await.expect("it sends");
        assert!(read > 0, "{text}");
        text += &String::from_utf8_lossy(&buffer[..read]);
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    tokio::time::timeout(Duration::from_secs(10), observed.stop()).await.expect("it stops with an open stream");
}

#[tokio::test]
async fn other_addresses_than_loopback_are_refused() {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let dashboard = Dashboard::new(&server.client()).listen("0.0.0.0:0".parse().expect("an address"));
    let error = dashboard.start().await.expect_err("it is not loopback");
    assert!(error.to_string().contains("loopback addresses only"), "{error}");
}

#[tokio::test]
async fn a_paused_controller_reconciles_one_key_for_each_step() {
    let observed = Observed::start(true).await;
    let before = observed.controller(|detail| detail["waiting"]["count"] == 0).await["reconciles"].as_u64();
    assert_eq!(observed.act("pause", r#"{"controller":"configmaps"}"#).await.0, 200);
    for name in ["one", "two", "three"] {
        observed.create(name).await;
    }
    let waiting = |count: u64| move |detail: &Value| detail["waiting"]["count"] == count && detail["isPaused"] == true;
    let paused = observed.controller(waiting(3)).await;
    assert_eq!(paused["reconciles"].as_u64(), before);
    assert_eq!(observed.act("step", r#"{"controller":"configmaps"}"#).await.0, 200);
    let stepped = observed.controller(waiting(2)).await;
    assert_eq!(stepped["reconciles"].as_u64(), before.map(|before| before + 1));
    assert_eq!(observed.act("resume", r#"{"controller":"configmaps"}"#).await.0, 200);
    observed.controller(|detail| detail["waiting"]["count"] == 0 && detail["isPaused"] == false).await;
    for (name, body, code) in [
        ("step", r#"{"controller":"configmaps"}"#, 409),
        ("pause", r#"{"controller":"unknown"}"#, 404),
        ("pause", r#"{"resource":"pods"}"#, 400),
    ] {
        let (have, why) = observed.act(name, body).await;
        assert_eq!(have, code, "{name} {body}: {why}");
    }
    observed.stop().await;
}

#[tokio::test]
async fn a_manager_serves_the_dashboard_as_an_option() {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let options = ManagerOptions::default().dashboard(move |dashboard| dashboard.listen(port));
    let mut manager = Manager::new(&server.client(), options);
    manager
        .add(manager.controller::<ConfigMap>("late").reconciling(|_, _: Context| async { Ok(Outcome::Done) }))
        .expect("a new name");
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run(&stopped).await });
    let mut answer = String::new();
    while answer.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let Ok(mut stream) = TcpStream::connect(port).await else { continue };
        let request = format!("GET /api/pipeline HTTP/1.0\r\nHost: {port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        stream.read_to_string(&mut answer).await.expect("text");
    }
    assert!(answer.starts_with("HTTP/1.0 401"), "{answer}");
    stop.cancel();
    running.await.expect("no panic").expect("it stops");
}
