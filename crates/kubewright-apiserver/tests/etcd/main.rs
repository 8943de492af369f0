//! Servers over a real etcd.

#[path = "../server/client.rs"]
#[allow(dead_code)]
mod client;
mod contention;
mod history;
mod outage;
mod recorded;
mod several;
mod single;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use kubewright_apiserver::{ApiServer, EtcdOptions, RunningServer};
use kubewright_core::Value;
use kubewright_etcd::{Client as EtcdClient, ClientOptions, KeyValue, RangeRequest, prefix_end};
use kubewright_testing::EtcdCluster;

use client::{Client, text};

/// Calls of etcd that fail in time for a test.
pub fn options(cluster: &EtcdCluster) -> ClientOptions {
    let endpoints = cluster.endpoints();
    let endpoints = endpoints.iter().map(|endpoint| endpoint.parse().expect("it is a URL"));
    ClientOptions::new(endpoints).timeout(Duration::from_secs(5))
}

/// Starts a server over an etcd, and connects to it.
pub async fn start(cluster: &EtcdCluster) -> (RunningServer, Client) {
    start_with(cluster, |server| server).await
}

/// Like [`start`], with further settings.
pub async fn start_with(cluster: &EtcdCluster, set: impl FnOnce(ApiServer) -> ApiServer) -> (RunningServer, Client) {
    let server = set(ApiServer::in_memory().etcd(EtcdOptions::new(options(cluster))));
    let server = server.start().await.expect("etcd runs");
    let client = Client::over(server.connect()).await;
    (server, client)
}

/// All keys under a prefix.
pub async fn keys(cluster: &EtcdCluster, prefix: &str) -> Vec<KeyValue> {
    let client = EtcdClient::new(options(cluster)).expect("the options are valid");
    let request = RangeRequest { end: prefix_end(prefix.as_bytes()), ..RangeRequest::key(prefix) };
    client.range(&request).await.expect("etcd runs").entries
}

/// The events of a watch.
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    /// Watches a collection. `query` is added to the path.
    pub async fn open(server: &RunningServer, path: &str, query: &str) -> Self {
        let mut client = Client::over(server.connect()).await;
        let request = Request::builder().uri(format!("{path}?watch=1&{query}")).header("host", "test");
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.status(), 200);
        // The connection lives as long as the body.
        std::mem::forget(client);
        Events { body: response.into_body(), buffer: Vec::new() }
    }

    /// Type, name and resource version of the next event, within a time limit.
    pub async fn next(&mut self) -> Option<(String, String, String)> {
        let event =
            tokio::time::timeout(Duration::from_secs(30), self.next_event()).await.expect("there is an event")?;
        let part = |path| text(&event, path);
        Some((part("type"), part("object/metadata/name"), part("object/metadata/resourceVersion")))
    }

    /// The next event, or `None` at the end.
    pub async fn next_event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(Value::from_json(&line).expect("a line is an event"));
            }
            let frame = self.body.frame().await?.expect("the server does not break off");
            self.buffer.extend_from_slice(frame.data_ref().expect("a frame of data"));
        }
    }
}

/// The resource version of an object or list.
pub fn version(value: &Value) -> u64 {
    text(value, "metadata/resourceVersion").parse().expect("it is a number")
}
