//! How webhooks are called: connections, paths, protocols and order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_core::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::client::{CONFIG_MAPS, config_map, server, text};
use crate::control::{Hook, REGISTRATION, self_signed_tls};

#[tokio::test]
async fn calls_of_a_webhook_share_a_connection() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|_| r#""allowed":true"#.to_owned()).await;
    hook.register(&mut client, "Validating", "").await;
    for name in ["a", "b", "c"] {
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(name, "")).await.0, 201);
    }
    assert_eq!(hook.seen.lock().unwrap().len(), 3);
    assert_eq!(hook.connections.load(Ordering::Relaxed), 1);
}

/// A server that speaks HTTP/1.0: it sends no length, and closes the connection without an alert of
/// TLS. Returns its client configuration, and the heads of its requests.
async fn start_http10(path: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let (acceptor, bundle) = self_signed_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let mut stream = acceptor.accept(socket).await.expect("a handshake");
            let mut request = Vec::new();
            let review = loop {
                stream.read_buf(&mut request).await.expect("a request");
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                if let Ok(review) = Value::from_json(body.as_bytes()) {
                    seen.lock().unwrap().push(head.to_owned());
                    break review;
                }
            };
            let uid = text(&review, "request/uid");
            let answer = format!(
                "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
                format_args!(r#"{{"response":{{"uid":"{uid}","allowed":true,"warnings":["seen"]}}}}"#)
            );
            stream.write_all(answer.as_bytes()).await.expect("an answer");
            stream.flush().await.expect("an answer");
        }
    });
    let url = format!("https://127.0.0.1:{}{path}", address.port());
    (format!(r#"{{"url":"{url}","caBundle":"{}"}}"#, bundle.to_base64()), heads)
}

#[tokio::test]
async fn webhooks_that_speak_http_1_0_are_called_with_a_clean_path() {
    let (_server, mut client) = server().await;
    let (config, heads) = start_http10("/a//b/../c/").await;
    let hook = Hook { config, seen: Arc::default(), connections: Arc::default() };
    hook.register(&mut client, "Validating", "").await;
    for name in ["a", "b"] {
        let (code, warnings) = client.warnings("POST", CONFIG_MAPS, &config_map(name, "")).await;
        assert_eq!((code, warnings.len()), (201, 1), "{warnings:?}");
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2);
    for head in heads.iter() {
        assert!(head.starts_with("POST /a/c?timeout=10s HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("user-agent: kube-apiserver-admission\r\n"), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_webhooks_are_called_at_the_same_time() {
    let (_server, mut client) = server().await;
    let calls = Arc::<AtomicUsize>::default();
    let rules = r#"[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]"#;
    let mut webhooks = Vec::new();
    for name in ["first", "second"] {
        let calls = Arc::clone(&calls);
        let hook = Hook::start(move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            let both = || {
                (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    calls.load(Ordering::Relaxed) == 2
                })
            };
            let manner = if tokio::task::block_in_place(both) { "together" } else { "alone" };
            format!(r#""allowed":false,"status":{{"message":"{name} was called {manner}"}}"#)
        });
        let config = hook.await.config;
        webhooks.push(format!(
            r#"{{"name":"{name}.example.com","clientConfig":{config},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":{rules}}}"#
        ));
    }
    let body = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{{"name":"w"}},"webhooks":[{}]}}"#,
        webhooks.join(",")
    );
    let path = format!("{REGISTRATION}/validatingwebhookconfigurations");
    assert_eq!(client.call("POST", &path, &body).await.0, 201);
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!(code, 400, "{refused}");
    assert!(text(&refused, "message").ends_with("first was called together"), "{refused}");
}
