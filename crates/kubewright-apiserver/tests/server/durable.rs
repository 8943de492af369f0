//! Persistence across restarts.

use std::path::PathBuf;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};

/// A temporary directory, removed on drop.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kubewright-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server that stores its objects in the directory.
pub async fn start(directory: &Directory) -> (RunningServer, Client) {
    let server = ApiServer::in_memory().data(&directory.0).start().await.expect("the directory can be used");
    let client = Client::over(server.connect()).await;
    (server, client)
}

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

#[tokio::test]
async fn objects_and_revisions_survive_a_restart() {
    let directory = Directory::new("durable");
    let (server, mut client) = start(&directory).await;
    let (_, kept) = client.call("POST", CONFIG_MAPS, &config_map("kept", "")).await;
    client.call("POST", CONFIG_MAPS, &config_map("gone", "")).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/gone"), "").await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", definitions, DEFINITION).await.0, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}"#;
    assert_eq!(client.call("POST", widgets, widget).await.0, 201);
    drop(client);
    server.stop().await;

    let (_server, mut client) = start(&directory).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/kept"), "").await.1, kept);
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/gone"), "").await.0, 404);
    assert_eq!(client.call("GET", &format!("{widgets}/w"), "").await.0, 200);
    let (_, new) = client.call("POST", CONFIG_MAPS, &config_map("new", "")).await;
    let version = |object| text(object, "metadata/resourceVersion").parse::<u64>().expect("a number");
    assert!(version(&new) > version(&kept));
}

/// Watches for one second, and returns the types and names of the events.
async fn watched(client: &mut Client, query: &str) -> Vec<String> {
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&{query}");
    let request = Request::builder().uri(path).header("host", "test").body(Full::default());
    let response = client.send(request.expect("a valid request")).await;
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("the watch ends by itself").to_bytes();
    let body = std::str::from_utf8(&body).expect("JSON is UTF-8");
    let event = |line: &str| {
        let event: Value = line.parse().expect("an event is JSON");
        format!("{} {}", text(&event, "type"), text(&event, "object/metadata/name"))
    };
    body.lines().map(event).collect()
}

#[tokio::test]
async fn a_watch_resumes_after_a_restart() {
    let directory = Directory::new("resumed");
    let (server, mut client) = start(&directory).await;
    client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"in":"yes"}"#)).await;
    let (_, list) = client.call("GET", CONFIG_MAPS, "").await;
    let version = text(&list, "metadata/resourceVersion");
    client.call("POST", CONFIG_MAPS, &config_map("b", "")).await;
    let unlabel = r#"{"metadata": {"labels": {"in": null}}}"#;
    client.call("PATCH", &format!("{CONFIG_MAPS}/a"), unlabel).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/b"), "").await;
    drop(client);
    server.stop().await;

    let (server, mut client) = start(&directory).await;
    let resumed = watched(&mut client, &format!("resourceVersion={version}")).await;
    assert_eq!(resumed, ["ADDED b", "MODIFIED a", "DELETED b"]);
    // The log includes previous states: the object has left the selection.
    let selected = watched(&mut client, &format!("resourceVersion={version}&labelSelector=in%3Dyes")).await;
    assert_eq!(selected, ["DELETED a"]);
    let past = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(client.call("GET", &past, "").await.1.get("items"), list.get("items"));
    // Repeat with a write after the restart.
    client.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await;
    drop(client);
    server.stop().await;
    let (_server, mut client) = start(&directory).await;
    let resumed = watched(&mut client, &format!("resourceVersion={version}")).await;
    assert_eq!(resumed, ["ADDED b", "MODIFIED a", "DELETED b", "DELETED a"]);
}

#[tokio::test]
async fn an_undecodable_object_can_be_deleted() {
    let directory = Directory::new("flipped");
    let (server, mut client) = start(&directory).await;
    client.call("POST", CONFIG_MAPS, &config_map("bad", r#","labels":{"mark":"flipped-bit"}"#)).await;
    client.call("POST", CONFIG_MAPS, &config_map("good", "")).await;
    drop(client);
    server.stop().await;
    let file = directory.0.join("objects.redb");
    let mut bytes = std::fs::read(&file).expect("it is there");
    let marks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"flipped-bit")).collect();
    marks.iter().for_each(|at| bytes[*at] ^= 1);
    std::fs::write(&file, bytes).expect("it can be written");

    let (server, mut client) = start(&directory).await;
    let bad = format!("{CONFIG_MAPS}/bad");
    let (status, answer) = client.call("GET", &bad, "").await;
    let message = text(&answer, "message");
    assert!(status == 500 && message.contains("\"bad\" cannot be read: its checksum does not match"), "{message}");
    let (_, warnings) = client.warnings("GET", CONFIG_MAPS, "").await;
    assert!(warnings.len() == 1 && warnings[0].contains("default/bad"), "{warnings:?}");
    let (_, list) = client.call("GET", CONFIG_MAPS, "").await;
    let items = list.get("items").and_then(Value::as_array).expect("a list");
    assert_eq!(items.iter().map(|item| text(item, "metadata/name")).collect::<Vec<_>>(), ["good"]);
    // The name stays reserved, so that a controller does not create a replacement.
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("bad", "")).await.0, 500);
    assert_eq!(client.call("DELETE", &bad, "").await.0, 200);
    assert_eq!(client.call("GET", &bad, "").await.0, 404);
    drop(client);
    server.stop().await;
    let (_server, mut client) = start(&directory).await;
    assert_eq!(client.call("GET", &bad, "").await.0, 404);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("bad", "")).await.0, 201);
}

#[tokio::test]
async fn objects_that_cannot_be_decoded_again_are_rejected() {
    let directory = Directory::new("deep");
    let (server, mut client) = start(&directory).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", definitions, DEFINITION).await.0, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for depth in (240..=256).chain([100]) {
        let (open, close) = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let head = format!(r#""apiVersion": "example.com/v1", "kind": "Widget", "metadata": {{"name": "w{depth}"}}"#);
        let (code, answer) = client.call("POST", widgets, &format!(r#"{{{head}, "spec": {open}1{close}}}"#)).await;
        match code {
            201 => kept.push(depth),
            _ => {
                assert!(code == 400 && text(&answer, "message").contains("nested deeper than 256 values"), "{answer}");
                refused.push(depth);
            }
        }
    }
    assert!(kept.contains(&100) && kept.contains(&245) && refused.contains(&254), "{kept:?} {refused:?}");
    drop(client);
    server.stop().await;

    let (_server, mut client) = start(&directory).await;
    for depth in kept {
        assert_eq!(client.call("GET", &format!("{widgets}/w{depth}"), "").await.0, 200, "{depth}");
    }
}

// Writes more than the number of recent objects that keep their trees.
#[tokio::test]
async fn old_objects_are_complete() {
    let (_server, mut client) = server().await;
    let metadata = r#","labels":{"age":"old"},"annotations":{"a":"1"}"#;
    let (_, old) = client.call("POST", CONFIG_MAPS, &config_map("old", metadata)).await;
    let (_, gone) = client.call("POST", CONFIG_MAPS, &config_map("gone", metadata)).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/gone"), "").await;
    for round in 0..600 {
        let label = format!(r#"{{"metadata": {{"labels": {{"round": "{round}"}}}}}}"#);
        let path = format!("{CONFIG_MAPS}/busy");
        match round {
            0 => client.call("POST", CONFIG_MAPS, &config_map("busy", "")).await,
            _ => client.call("PATCH", &path, &label).await,
        };
    }
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/old"), "").await.1, old);
    for selector in ["fieldSelector=metadata.name%3Dold", "labelSelector=age%3Dold"] {
        let (_, list) = client.call("GET", &format!("{CONFIG_MAPS}?{selector}"), "").await;
        let items = list.get("items").and_then(Value::as_array).expect("a list");
        assert_eq!(
            items.iter().map(|item| text(item, "metadata/uid")).collect::<Vec<_>>(),
            [text(&old, "metadata/uid")]
        );
    }
    let version = |object: &Value| text(object, "metadata/resourceVersion").parse::<u64>().expect("a number");
    let past = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", version(&gone));
    let (_, list) = client.call("GET", &past, "").await;
    let items = list.get("items").and_then(Value::as_array).expect("a list");
    assert_eq!(items.len(), 2, "{list}");

    let (code, new) = client.call("PATCH", &format!("{CONFIG_MAPS}/old"), r#"{"data": {"k": "v"}}"#).await;
    assert_eq!((code, text(&new, "data/k")), (200, "v".to_owned()));
    let same = |path| assert_eq!(text(&new, path), text(&old, path));
    ["metadata/uid", "metadata/labels", "metadata/annotations", "metadata/creationTimestamp"]
        .into_iter()
        .for_each(same);
}

#[tokio::test]
async fn one_directory_has_one_server() {
    let directory = Directory::new("shared");
    let (_server, _client) = start(&directory).await;
    let error = ApiServer::in_memory().data(&directory.0).start().await.expect_err("the directory is in use");
    assert!(error.to_string().ends_with("objects.redb: another server uses it"), "{error}");
}

#[tokio::test]
async fn a_foreign_file_is_named_and_not_modified() {
    let directory = Directory::new("foreign");
    std::fs::create_dir_all(&directory.0).expect("a directory of our own");
    let file = directory.0.join("objects.redb");
    std::fs::write(&file, b"a love letter").expect("a file of our own");
    let error = ApiServer::in_memory().data(&directory.0).start().await.expect_err("it is no database");
    assert!(error.to_string().contains("objects.redb"), "{error}");
    assert_eq!(std::fs::read(&file).expect("it is still there"), b"a love letter");
}

#[tokio::test]
async fn an_empty_key_is_replaced_and_an_invalid_one_is_reported() {
    let directory = Directory::new("keys");
    std::fs::create_dir_all(&directory.0).expect("a directory");
    let key = directory.0.join("service-accounts.key");
    std::fs::write(&key, b"").expect("it can be written");
    start(&directory).await.0.stop().await;
    assert!(std::fs::metadata(&key).expect("it is there").len() > 0);

    std::fs::write(&key, b"no key").expect("it can be written");
    let refused = ApiServer::in_memory().data(&directory.0).start().await.expect_err("it is no key");
    let cause = std::error::Error::source(&refused).expect("it has a cause").to_string();
    assert!(cause.contains("service-accounts.key"), "{cause}");
}
