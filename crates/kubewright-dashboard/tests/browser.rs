//! The page in a real Chromium, driven by chromedriver (Debian packages `chromium` and
//! `chromium-driver`). Skipped loudly where they are missing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kubewright_api::apps::v1::Deployment;
use kubewright_apiserver::ApiServer;
use kubewright_client::Api;
use kubewright_controllers::{ControllerSet, NodeOptions};
use kubewright_core::DynamicObject;
use kubewright_dashboard::{Dashboard, ObservedReconcile};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The key under which WebDriver names elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A session of chromedriver.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// `None` if Chromium or its driver is missing.
    #[allow(clippy::print_stderr)]
    async fn start() -> Option<Self> {
        for program in ["chromium", "chromedriver"] {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !found.is_ok_and(|status| status.success()) {
                eprintln!(
                    "SKIPPED the page in a browser: {program} is not installed (Debian: chromium chromium-driver)"
                );
                return None;
            }
        }
        let port = TcpListener::bind("127.0.0.1:0").await.ok()?.local_addr().ok()?.port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver runs");
        let mut browser = Browser { driver, port, session: String::new() };
        let deadline = Instant::now() + Duration::from_secs(60);
        while browser.request("GET", "/status", &Value::Null).await.is_none() {
            assert!(Instant::now() < deadline, "chromedriver does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--lang=en-US",
            "--force-device-scale-factor=1",
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments, "prefs": {"intl.accept_languages": "en"}}}}});
        let created = browser.request("POST", "/session", &capabilities).await.expect("a session");
        browser.session = created["sessionId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        Some(browser)
    }

    /// Sends a command to the driver. `None` if it does not answer.
    async fn request(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
        // The driver keeps connections open.
        let mut answer = Vec::new();
        let body = loop {
            if stream.read_buf(&mut answer).await.ok()? == 0 {
                return None;
            }
            let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            if answer.len() >= end + 4 + length.trim().parse::<usize>().ok()? {
                break String::from_utf8_lossy(&answer[end + 4..]).into_owned();
            }
        };
        let mut value: Value = serde_json::from_str(&body).ok()?;
        Some(value["value"].take())
    }

    async fn command(&self, method: &str, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let answer = self.request(method, &path, &body).await.expect("the driver answers");
        assert!(answer.get("error").is_none(), "{path}: {answer}");
        answer
    }

    async fn open(&self, url: &str) {
        self.command("POST", "/url", json!({ "url": url })).await;
    }

    async fn resize(&self, width: u32, height: u32) {
        self.command("POST", "/window/rect", json!({ "width": width, "height": height })).await;
    }

    /// The result of a script.
    async fn script(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Waits until a script returns true.
    async fn until(&self, what: &str, condition: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.script(&format!("return Boolean({condition})")).await != Value::Bool(true) {
            if Instant::now() > deadline {
                panic!("{what}: never; the page says: {}", self.script("return document.body.innerText").await);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn click(&self, selector: &str) {
        let found = self.command("POST", "/element", json!({"using": "css selector", "value": selector})).await;
        let element = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned();
        self.command("POST", &format!("/element/{element}/click"), json!({})).await;
    }

    async fn type_into(&self, selector: &str, text: &str) {
        let found = self.command("POST", "/element", json!({"using": "css selector", "value": selector})).await;
        let element = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned();
        self.command("POST", &format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Saves a picture of the page, if the environment variable names a folder for it.
    async fn screenshot(&self, name: &str) {
        let Ok(folder) = std::env::var("KUBEWRIGHT_SCREENSHOTS") else { return };
        let shot = self.command("GET", "/screenshot", Value::Null).await;
        let shot = kubewright_core::ByteString::from_base64(shot.as_str().expect("base64").as_bytes()).expect("base64");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(format!("{folder}/{name}.png"), &*shot).expect("a file");
    }

    /// The errors in the console of the page.
    async fn console_errors(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", json!({"type": "browser"})).await;
        let entries = log.as_array().cloned().unwrap_or_default();
        let errors = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
    "spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
    "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_roll_out_and_its_actions_work() {
    let Some(browser) = Browser::start().await else { return };
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let client = server.client();
    let controllers = ControllerSet::new(&client).nodes(NodeOptions::default().count(1)).start();
    let context = controllers.context().clone();
    let (activity, mut finished) = (context.activity().clone(), context.activity().observe());
    let dashboard = Dashboard::new(&client)
        .informers(context.factory())
        .queues(move |limit| activity.queues(limit).into_iter().map(|(name, view)| (name.to_owned(), view)).collect())
        .allow_actions();
    let reconciles = dashboard.reconciles();
    tokio::spawn(async move {
        while let Some(ended) = finished.recv().await {
            let mut reconcile = ObservedReconcile::now(ended.controller, ended.key, ended.elapsed);
            reconcile.error = ended.error;
            reconciles.send(reconcile);
        }
    });
    let dashboard = dashboard.start().await.expect("a free port");

    browser.resize(1280, 720).await;
    browser.open(dashboard.url()).await;
    browser.until("the page is live", "document.getElementById('status').dataset.status === 'live'").await;
    assert_eq!(browser.script("return location.search").await, "", "the token has left the address bar");
    let deployments = Api::<DynamicObject>::new(
        &client,
        kubewright_core::GroupVersionResource::new("apps", "v1", "deployments"),
        kubewright_client::Scope::Namespace("default".into()),
    );
    let deployment: DynamicObject = DEPLOYMENT.parse().expect("an object");
    deployments.create(&deployment).await.expect("it is created");
    browser.until("the lane of the controller", "document.querySelector('[data-controller=deployment]')").await;
    browser
        .until("the informer of pods", "[...document.querySelectorAll('[data-informer=pods] td')].some((cell) => cell.textContent.startsWith('1 '))")
        .await;
    browser.screenshot("pipeline").await;

    // A controller, an object of it, and its relatives.
    browser.click("[data-controller=deployment] .name").await;
    browser.until("a reconcile", "document.querySelector('#detail .reconciles .link')").await;
    browser.click("#detail .reconciles .link").await;
    browser.until("the owner tree", "document.querySelectorAll('#detail .tree li').length >= 3").await;
    let tree = browser.script("return document.querySelector('#detail .tree').innerText").await;
    let tree = tree.as_str().expect("text");
    assert!(tree.contains("Deployment default/web") && tree.contains("ReplicaSet") && tree.contains("Pod"), "{tree}");
    browser.screenshot("object").await;

    // An action has its effect.
    browser.script("document.getElementById('replicas').value = '3'").await;
    browser.click("#detail .actions span button").await;
    browser.until("the answer", "document.querySelector('#detail .message').textContent.includes('3 replicas')").await;
    let web = Api::<Deployment>::namespaced(&client, "default").get("web").await.expect("it is there");
    assert_eq!(web.spec.as_ref().and_then(|spec| spec.replicas), Some(3));
    browser.until("three pods", "[...document.querySelectorAll('[data-informer=pods] td')].some((cell) => cell.textContent.startsWith('3 '))").await;

    // The keyboard closes the detail and reaches the search.
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))").await;
    browser.until("the detail is closed", "document.getElementById('detail').hidden").await;
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))").await;
    browser.until("the search has the focus", "document.activeElement.id === 'search-resource'").await;
    browser.type_into("#search-resource", "nodes").await;
    browser.type_into("#search-key", "node-0").await;
    browser.click("#search-button").await;
    browser.until("an object or a reason", "document.querySelector('#detail-body').innerText.length > 10").await;
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))").await;

    // Languages have the same words; dark and narrow pages need no sideways scrolling.
    let has_same_words = "return import('./words.js').then((words) => words.sameKeys())";
    assert_eq!(browser.script(has_same_words).await, true);
    browser.click("#language").await;
    browser.until("Chinese", "document.documentElement.lang === 'zh'").await;
    browser.click("#theme").await;
    for (width, height, name) in [(1280, 720, "chinese"), (500, 800, "phone")] {
        browser.resize(width, height).await;
        let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.script(overflow).await, 0, "{name}");
        browser.screenshot(name).await;
    }
    let errors = browser.console_errors().await;
    // A search for a node that does not exist is answered with 404, which the console reports.
    let errors: Vec<_> = errors.iter().filter(|error| !error.contains("api/object")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    dashboard.stop().await;
    controllers.stop().await.expect("they stop");
}
