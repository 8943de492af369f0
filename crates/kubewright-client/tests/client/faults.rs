//! Truncated and slow streams, and streams that end with an error.

use std::time::Duration;

use bytes::Bytes;
use kubewright_api::core::v1::{ConfigMap, Pod};
use kubewright_client::transport::TransportErrorKind;
use kubewright_client::{Api, Client, Error, WatchStream};
use kubewright_core::Object;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::protobuf::Encoder;
use kubewright_core::stream::WatchEvent;

use crate::script::{Script, Step, answer};
use crate::support::{config_map, test_client};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn versioned(name: &str, version: &str) -> ConfigMap {
    let mut object = config_map(name);
    object.set_resource_version(version);
    object
}

fn json_frame(kind: &str, object: &ConfigMap) -> Vec<u8> {
    let object = String::from_utf8(object.to_json()).unwrap();
    format!("{{\"type\":{kind:?},\"object\":{object}}}\n").into_bytes()
}

fn protobuf_frame(kind: &str, object: &ConfigMap) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut encoder = Encoder { out: &mut frame };
    encoder.bytes(1, kind.as_bytes());
    let object = object.to_protobuf().unwrap();
    encoder.delimited(2, |raw| raw.bytes(1, &object));
    let mut framed = (frame.len() as u32).to_be_bytes().to_vec();
    framed.extend(frame);
    framed
}

async fn watch(client: &Client) -> WatchStream<ConfigMap> {
    let options = WatchOptions::default().resource_version("1");
    Api::<ConfigMap>::namespaced(client, "default").watch(&options).await.unwrap()
}

#[tokio::test]
async fn a_watch_cut_at_any_byte_gives_whole_events_and_then_the_error() {
    let (first, second) = (versioned("a", "2"), versioned("b", "3"));
    for protobuf in [false, true] {
        let frame = if protobuf { protobuf_frame } else { json_frame };
        let head = frame("ADDED", &first);
        let whole = [head.clone(), frame("MODIFIED", &second)].concat();
        for cut in 0..=whole.len() {
            for broken in [false, true] {
                let media_type = if protobuf { PROTOBUF } else { "application/json" };
                let mut reply = answer(200, Bytes::copy_from_slice(&whole[..cut])).header("content-type", media_type);
                if broken {
                    reply = reply.then_cut();
                }
                let mut watch = watch(&Script::new([reply]).client()).await;
                let mut events = Vec::new();
                let error = loop {
                    match watch.next().await {
                        Some(Ok(event)) => events.push(event),
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                };
                let line_end = usize::from(!protobuf);
                let complete = usize::from(cut + line_end >= head.len()) + usize::from(cut + line_end >= whole.len());
                assert_eq!(events.len(), complete, "cut at {cut} of {}", whole.len());
                assert!(
                    events
                        .iter()
                        .zip([WatchEvent::Added(first.clone()), WatchEvent::Modified(second.clone())])
                        .all(|(a, b)| *a == b)
                );
                let between =
                    [0, head.len() - line_end, head.len(), whole.len() - line_end, whole.len()].contains(&cut);
                match error {
                    None => assert!(between && !broken, "cut at {cut}"),
                    Some(error) => assert!(error.is_disconnected() && (broken || !between), "cut at {cut}: {error}"),
                }
                assert!(watch.next().await.is_none(), "nothing follows an error");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_yields_each_event_with_its_last_byte() {
    let frames = [json_frame("ADDED", &versioned("a", "2")), json_frame("BOOKMARK", &versioned("", "9"))].concat();
    let script = Script::new([answer(200, frames).dripping(Duration::from_millis(100))]);
    let mut watch = watch(&script.client()).await;
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    let Some(Ok(WatchEvent::Bookmark(mark))) = watch.next().await else { panic!("no bookmark") };
    assert_eq!(mark.resource_version(), "9");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn an_expired_version_is_an_error_or_an_event() {
    let gone =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}"#;
    let event = format!("{{\"type\":\"ERROR\",\"object\":{gone}}}\n");
    let script = Script::new([answer(410, gone), answer(200, event)]);
    let api = Api::<ConfigMap>::namespaced(&script.client(), "default");
    let options = WatchOptions::default().resource_version("1");
    let error = api.watch(&options).await.unwrap_err();
    assert!(error.is_expired() && !error.is_retriable(), "{error}");
    let mut watch = api.watch(&options).await.unwrap();
    let Some(Ok(WatchEvent::Error(status))) = watch.next().await else { panic!("no error event") };
    assert!(status.is_expired());
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_embedded_server_forgets_versions_too() {
    let server = kubewright_apiserver::ApiServer::in_memory().history(10).start().await.unwrap();
    // The server waits before it reports a version that is too large, and asks for a retry.
    let api = Api::<ConfigMap>::namespaced(&server.client().retries(0), "default");
    for index in 0..30 {
        api.create(&config_map(&format!("m{index}"))).await.unwrap();
    }
    let options = WatchOptions::default().resource_version("2");
    let expired = match api.watch(&options).await {
        Err(error) => error.is_expired(),
        Ok(mut watch) => matches!(watch.next().await, Some(Ok(WatchEvent::Error(status))) if status.is_expired()),
    };
    assert!(expired);
    let future = ListOptions::default().resource_version("999999");
    let error = api.list(&future).await.unwrap_err();
    assert!(error.is_too_large_resource_version() && error.is_retriable(), "{error}");
}

#[tokio::test]
async fn a_watch_that_does_not_open_is_an_empty_one() {
    // RC-4
    for kind in [TransportErrorKind::Disconnected, TransportErrorKind::Timeout] {
        let script = Script::new((0..11).map(|_| Step::Fail(kind)));
        let client = script.client().retries(0);
        assert!(watch(&client).await.next().await.is_none());
    }
    let script = Script::new([Step::Fail(TransportErrorKind::Connect)]);
    let api = Api::<Pod>::all(&script.client());
    assert!(api.watch(&WatchOptions::default()).await.unwrap_err().is_connection_refused());
}

#[tokio::test]
async fn an_event_of_an_unknown_type_is_not_understood() {
    let frame = json_frame("SURPRISE", &versioned("a", "2"));
    let mut watch = watch(&Script::new([answer(200, frame)]).client()).await;
    assert!(matches!(watch.next().await, Some(Err(Error::Decode(_)))));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_list_cut_at_any_byte_is_no_list() {
    let server = test_client().await;
    let (json_client, client) = (server.client.clone().json_only(), server.client);
    let api = Api::<ConfigMap>::namespaced(&client, server.namespace.as_str());
    for name in ["a", "b"] {
        api.create(&config_map(name)).await.unwrap();
    }
    let mut answers = Vec::new();
    for client in [json_client, client] {
        let request = client.rest().get().namespace(server.namespace.as_str()).resource("configmaps").accept_protobuf();
        answers.push(request.send().await.unwrap());
    }
    // Simulated time only from here on: a real server does not follow it.
    tokio::time::pause();
    for whole in answers {
        let media_type = whole.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = whole.bytes();
        // An envelope ends with two empty fields, which may be missing.
        let end = if bytes.starts_with(b"k8s") { bytes.len() - 4 } else { bytes.trim_ascii_end().len() };
        for cut in 0..end {
            let script = Script::new([answer(200, bytes.slice(..cut)).header("content-type", &media_type)]);
            let api = Api::<ConfigMap>::namespaced(&script.client(), "default");
            let error = api.list(&ListOptions::default()).await.expect_err("it was cut");
            assert!(matches!(error, Error::Decode(_)), "{error}");
        }
        let drip = answer(200, bytes).header("content-type", &media_type).dripping(Duration::from_nanos(1));
        let script = Script::new([drip]);
        let list =
            Api::<ConfigMap>::namespaced(&script.client(), "default").list(&ListOptions::default()).await.unwrap();
        assert!(list.items.len() >= 2);
    }
}
