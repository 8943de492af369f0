//! Programs that work with others: events, leader election, metrics.

use std::net::TcpListener;
use std::time::Duration;

use kubewright::api::coordination::v1::Lease;
use kubewright::api::events::v1::Event;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::world::World;

/// An address of this machine that was free a moment ago.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").to_string()
}

/// A connection, as soon as a program listens.
pub async fn connect(address: &str) -> TcpStream {
    let connected = async {
        loop {
            match TcpStream::connect(address).await {
                Ok(stream) => return stream,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(Duration::from_secs(60), connected).await.expect("the program listens")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_published() {
    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: side-by-side, namespace: default}}";
    let world = World::with(MAP).await;
    assert_eq!(world.run("26-events").await, "");
    let events = world.client().api::<Event>("default").list(&Default::default()).await.expect("it answers");
    let [event] = &events.items[..] else { panic!("{events:?}") };
    assert_eq!(event.reason.as_deref(), Some("Checked"));
    assert_eq!(event.note.as_deref(), Some("all values are valid"));
    let regarding = event.regarding.as_ref().expect("it is about an object");
    assert_eq!(regarding.name.as_deref(), Some("side-by-side"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_leads_at_a_time() {
    let world = World::with("").await;
    let mut one = world.start("27-leader-election");
    one.prints("leading").await;
    let leases = world.client().api::<Lease>("default");
    let holder = |lease: Lease| lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let first = holder(leases.get("side-by-side").await.expect("it has one"));
    let mut two = world.start("27-leader-election");
    // The leader goes on, and still holds the lease.
    one.prints("leading").await;
    assert_eq!(holder(leases.get("side-by-side").await.expect("it has one")), first);
    one.stop().await;
    two.prints("leading").await;
    let second = holder(leases.get("side-by-side").await.expect("it has one"));
    assert!(!second.is_empty() && second != first, "{second}");
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served() {
    let world = World::with("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}").await;
    let address = free_address();
    let program = world.start_with("31-metrics", &[&address]);
    let get = async |path: &str| {
        let mut stream = connect(&address).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut response = String::new();
        // A probe without an answer is repeated, as the kubelet does.
        let answered = timeout(Duration::from_secs(5), stream.read_to_string(&mut response)).await;
        answered.map(|read| read.expect("it answers")).unwrap_or_default();
        response
    };
    let ready = async {
        while !get("/readyz").await.starts_with("HTTP/1.1 200") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), ready).await.expect("it becomes ready");
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
    let counted = async {
        while !get("/metrics").await.contains("controller_runtime_reconcile_total") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), counted).await.expect("it counts reconciles");
    program.stop().await;
}
