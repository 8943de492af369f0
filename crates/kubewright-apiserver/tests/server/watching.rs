//! Watches on the wire.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::custom::{DEFINITIONS, WIDGETS, define, version, widget};

/// The events of a watch.
struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    async fn open(client: &mut Client, query: &str) -> Self {
        Events::of(client, CONFIG_MAPS, query).await
    }

    async fn of(client: &mut Client, path: &str, query: &str) -> Self {
        let request = Request::builder().uri(format!("{path}?watch=1&{query}")).header("host", "test");
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), buffer: Vec::new() }
    }

    /// Type and object name of the next event. `None` at the end.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event = Value::from_json(&line).expect("a line is an event");
                return Some((text(&event, "type"), text(&event, "object/metadata/name")));
            }
            let frame = self.body.frame().await?.expect("the server does not break off");
            self.buffer.extend_from_slice(frame.data_ref().expect("a frame of data"));
        }
    }
}

fn event(kind: &str, name: &str) -> Option<(String, String)> {
    Some((kind.to_owned(), name.to_owned()))
}

#[tokio::test]
async fn a_watch_sends_existing_objects_and_events() {
    let (server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let mut other = Client::over(server.connect()).await;
    let mut events = Events::open(&mut other, "").await;
    assert_eq!(events.next().await, event("ADDED", "a"));
    client.call("POST", CONFIG_MAPS, &config_map("b", "")).await;
    client.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"k":"v"}}"#).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/b"), "").await;
    for expected in [event("ADDED", "b"), event("MODIFIED", "a"), event("DELETED", "b")] {
        assert_eq!(events.next().await, expected);
    }
    // An open watch does not prevent the server from stopping.
    server.stop().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_selector_turns_updates_into_added_and_deleted() {
    let (server, mut client) = server().await;
    let mut other = Client::over(server.connect()).await;
    let mut events = Events::open(&mut other, "labelSelector=app%3Dweb").await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let path = format!("{CONFIG_MAPS}/a");
    for (label, expected) in [("web", event("ADDED", "a")), ("db", event("DELETED", "a"))] {
        client.call("PATCH", &path, &format!(r#"{{"metadata":{{"labels":{{"app":"{label}"}}}}}}"#)).await;
        assert_eq!(events.next().await, expected);
    }
}

#[tokio::test]
async fn a_watch_from_a_compacted_revision_is_expired() {
    let (server, _) = server().await;
    let mut client = Client::over(server.connect()).await;
    let mut events = Events::open(&mut client, "resourceVersion=1").await;
    assert_eq!(events.next().await, event("ERROR", ""));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn many_watchers_each_receive_every_event() {
    const WATCHERS: usize = 200;
    const EVENTS: usize = 50;
    let (server, mut client) = server().await;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let request =
            Request::builder().uri(format!("{CONFIG_MAPS}?watch=1")).body(Bytes::new()).expect("a valid request");
        let mut body = server.service().call(request).await.expect("no fault was injected").into_body();
        watches.push(tokio::spawn(async move {
            let mut lines = 0;
            while lines < EVENTS {
                let frame = body.frame().await.expect("it goes on").expect("it does not fail");
                lines += frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
            }
            lines
        }));
    }
    for index in 0..EVENTS {
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(&format!("c{index}"), "")).await.0, 201);
    }
    for watch in watches {
        assert_eq!(watch.await.expect("it does not panic"), EVENTS);
    }
}

#[tokio::test]
async fn all_streams_of_a_connection_get_every_event_once_and_in_order() {
    const WATCHES: usize = 40;
    const EVENTS: usize = 30;
    let (server, mut writer) = server().await;
    let io = hyper_util::rt::TokioIo::new(server.connect());
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(executor, io).await.expect("the server speaks it");
    tokio::spawn(connection);
    let mut watches = Vec::new();
    for number in 0..WATCHES {
        let mut sender = sender.clone();
        // Different selectors and formats.
        let (query, accept) = match number % 3 {
            0 => ("", "application/json"),
            1 => ("&fieldSelector=metadata.name%3Dmap-7", "application/json"),
            _ => ("", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        };
        let uri = format!("http://test{CONFIG_MAPS}?watch=1{query}");
        let request = Request::builder().uri(uri).header("accept", accept);
        let request = request.body(Full::<Bytes>::default()).expect("a valid request");
        let response = sender.send_request(request).await.expect("the server answers");
        assert_eq!(response.status(), 200);
        watches.push((number, Events { body: response.into_body(), buffer: Vec::new() }));
    }
    for number in 0..EVENTS {
        let body = config_map(&format!("map-{number}"), "");
        assert_eq!(writer.call("POST", CONFIG_MAPS, &body).await.0, 201);
    }
    for (number, mut events) in watches {
        let seen: Vec<usize> = if number % 3 == 1 { vec![7] } else { (0..EVENTS).collect() };
        for name in seen {
            // The root certificate config map may come first.
            let next = loop {
                match events.next().await {
                    Some((_, name)) if !name.starts_with("map-") => continue,
                    next => break next,
                }
            };
            assert_eq!(next, event("ADDED", &format!("map-{name}")), "watch {number}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_watch_ends_when_its_definition_changes_or_is_deleted() {
    let (server, mut client) = server().await;
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    define(&mut client, &version("v1", true, r#""size":{"type":"integer"}"#)).await;
    assert_eq!(client.call("POST", WIDGETS, &widget("v1", "{}")).await.0, 201);
    let mut other = Client::over(server.connect()).await;
    let mut events = Events::of(&mut other, WIDGETS, "").await;
    assert_eq!(events.next().await, event("ADDED", "w"));
    // A change of the definition's labels does not end the watch.
    client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    client.call("PATCH", &format!("{WIDGETS}/w"), r#"{"spec":{"size":1}}"#).await;
    assert_eq!(events.next().await, event("MODIFIED", "w"));
    client.call("PATCH", &path, r#"{"spec":{"names":{"shortNames":["wi"]}}}"#).await;
    assert_eq!(events.next().await, None);

    let mut other = Client::over(server.connect()).await;
    let mut events = Events::of(&mut other, WIDGETS, "").await;
    assert_eq!(events.next().await, event("ADDED", "w"));
    client.call("DELETE", &path, "").await;
    assert_eq!(events.next().await, event("DELETED", "w"));
    assert_eq!(events.next().await, None);
}
