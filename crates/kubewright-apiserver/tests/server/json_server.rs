//! A server that kubeconfigs of webhooks point to: JSON in, JSON out.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kubewright_core::Value;
use kubewright_storage::Directory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct JsonServer {
    pub kubeconfig: PathBuf,
    /// The bodies of all requests.
    pub seen: Arc<Mutex<Vec<Value>>>,
    /// How many of the next requests fail with 500.
    pub failures: Arc<Mutex<usize>>,
}

impl JsonServer {
    /// Answers each body with the result of `answer`.
    pub async fn start(directory: &Directory, answer: fn(&Value) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        std::fs::create_dir_all(&directory.0).expect("it can be created");
        let kubeconfig = directory.0.join("webhook.yaml");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: w\n\
             clusters: [{{name: w, cluster: {{server: 'http://{address}/hook'}}}}]\n\
             contexts: [{{name: w, context: {{cluster: w, user: w}}}}]\n\
             users: [{{name: w, user: {{}}}}]\n"
        );
        std::fs::write(&kubeconfig, config).expect("it can be written");
        let server = JsonServer { kubeconfig, seen: Arc::default(), failures: Arc::default() };
        let (seen, failures) = (Arc::clone(&server.seen), Arc::clone(&server.failures));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(body) = read_request(&mut stream).await else { continue };
                let is_failing = {
                    let mut failures = failures.lock().unwrap();
                    let is_failing = *failures > 0;
                    *failures = failures.saturating_sub(1);
                    is_failing
                };
                let code = if is_failing { "500 Internal Server Error" } else { "200 OK" };
                let answer = if is_failing { String::new() } else { answer(&body) };
                seen.lock().unwrap().push(body);
                let length = answer.len();
                let head = format!("HTTP/1.1 {code}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(format!("{head}{answer}").as_bytes()).await.expect("an answer");
            }
        });
        server
    }

    pub fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// The body of a request. `None` if the connection ends before it.
async fn read_request(stream: &mut TcpStream) -> Option<Value> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.expect("a request") == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = Value::from_json(body.as_bytes()) {
            assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
            return Some(body);
        }
    }
}
