//! Chromium, driven by chromedriver over the WebDriver protocol.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The key under which WebDriver names elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A session of chromedriver.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// `None` if Chromium or its driver is missing.
    #[allow(clippy::print_stderr)]
    pub async fn start() -> Option<Self> {
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

    pub async fn open(&self, url: &str) {
        self.command("POST", "/url", json!({ "url": url })).await;
    }

    pub async fn resize(&self, width: u32, height: u32) {
        self.command("POST", "/window/rect", json!({ "width": width, "height": height })).await;
    }

    /// The result of a script.
    pub async fn script(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Waits until a script returns true.
    pub async fn until(&self, what: &str, condition: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.script(&format!("return Boolean({condition})")).await != Value::Bool(true) {
            if Instant::now() > deadline {
                panic!("{what}: never; the page says: {}", self.script("return document.body.innerText").await);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn click(&self, selector: &str) {
        let found = self.command("POST", "/element", json!({"using": "css selector", "value": selector})).await;
        let element = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned();
        self.command("POST", &format!("/element/{element}/click"), json!({})).await;
    }

    pub async fn type_into(&self, selector: &str, text: &str) {
        let found = self.command("POST", "/element", json!({"using": "css selector", "value": selector})).await;
        let element = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned();
        self.command("POST", &format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Sets the size of the page itself, without the frame of the window.
    pub async fn view(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let body = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics});
        self.command("POST", "/goog/cdp/execute", body).await;
    }

    /// Presses a key, such as `ArrowRight`.
    pub async fn key(&self, key: &str) {
        self.script(&format!("document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")).await;
    }

    /// A picture of the page, in base64.
    pub async fn shot(&self) -> String {
        // Transitions and the scroll bar have settled after two frames.
        let frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))";
        self.command("POST", "/execute/async", json!({ "script": frames, "args": [] })).await;
        let shot = self.command("GET", "/screenshot", Value::Null).await;
        shot.as_str().expect("base64").to_owned()
    }

    /// The result of an asynchronous script in a tab of its own, which is closed again.
    pub async fn in_blank_tab(&self, script: &str, arguments: Value) -> Value {
        let own = self.command("GET", "/window", Value::Null).await;
        let tab = self.command("POST", "/window/new", json!({"type": "tab"})).await;
        self.command("POST", "/window", json!({"handle": tab["handle"]})).await;
        let result = self.command("POST", "/execute/async", json!({ "script": script, "args": arguments })).await;
        self.command("DELETE", "/window", Value::Null).await;
        self.command("POST", "/window", json!({ "handle": own })).await;
        result
    }

    /// Saves a picture of the page, if the environment variable names a folder for it.
    pub async fn screenshot(&self, name: &str) {
        let Ok(folder) = std::env::var("KUBEWRIGHT_SCREENSHOTS") else { return };
        let shot = self.command("GET", "/screenshot", Value::Null).await;
        let shot = kubewright_core::ByteString::from_base64(shot.as_str().expect("base64").as_bytes()).expect("base64");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(format!("{folder}/{name}.png"), &*shot).expect("a file");
    }

    /// The errors in the console of the page.
    pub async fn console_errors(&self) -> Vec<String> {
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
