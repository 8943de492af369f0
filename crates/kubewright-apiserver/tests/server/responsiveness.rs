//! Heavy requests do not block others.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::client::{CONFIG_MAPS, Client, config_map, text};
use crate::control::put_in_force;

async fn fill(server: &RunningServer, count: usize) {
    let service = server.service();
    for number in 0..count {
        let object = config_map(&format!("object-{number}"), r#","labels":{"app":"web"}"#);
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let response = service.call(request.body(object.into()).expect("a valid request")).await;
        assert_eq!(response.expect("no fault was injected").status().as_u16(), 201);
    }
}

/// Checks that each request succeeds, and that none can while all blocking threads are busy.
///
/// The runtime must have one blocking thread. This shows without a clock that the executor's thread
/// does not do the work.
async fn need_a_blocking_thread(server: &RunningServer, requests: Vec<(&str, Request<Full<Bytes>>)>) {
    for (what, request) in &requests {
        let mut client = Client::over(server.connect()).await;
        let response = client.send(request.clone()).await;
        assert!(response.status().is_success(), "{what}: {response:?}");
        response.into_body().collect().await.expect("the body ends");
    }
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || is_done.recv());
    for (what, request) in requests {
        let mut client = Client::over(server.connect()).await;
        let response = tokio::time::timeout(Duration::from_millis(500), client.send(request)).await;
        assert!(response.is_err(), "{what} ran on the executor");
    }
    drop(done);
    assert!(busy.await.expect("no panic").is_err());
}

/// Runs a test on a runtime with one thread, and one for blocking work.
fn on_two_threads(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(test);
}

fn request(method: &str, path: &str, headers: [&str; 2], body: String) -> Request<Full<Bytes>> {
    let [content_type, accept] = headers;
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("content-type", content_type).header("accept", accept);
    request.body(Full::from(body)).expect("a valid request")
}

const JSON: &str = "application/json";

#[test]
fn long_lists_and_large_objects_leave_the_executor_free() {
    on_two_threads(async {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
        fill(&server, 2000).await;
        let data: Vec<String> = (0..20_000).map(|number| format!(r#""key-{number}":"value-{number}""#)).collect();
        let large = |name: &str| {
            let data = data.join(",");
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{{name}}},"data":{{{data}}}}}"#)
        };
        let mut client = Client::over(server.connect()).await;
        assert_eq!(client.call("POST", CONFIG_MAPS, &large(r#""name":"large""#)).await.0, 201);
        let get = |path: &str, accept: &str| request("GET", path, [JSON, accept], String::new());
        let path = format!("{CONFIG_MAPS}/large");
        let patch = r#"{"data":{"key-1":"changed"}}"#.to_owned();
        let requests = vec![
            ("table", get(CONFIG_MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io")),
            ("protobuf", get(CONFIG_MAPS, "application/vnd.kubernetes.protobuf")),
            ("metadata", get(CONFIG_MAPS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")),
            ("create", request("POST", CONFIG_MAPS, [JSON; 2], large(r#""generateName":"large-""#))),
            ("get", get(&path, "application/json;as=Table;v=v1;g=meta.k8s.io")),
            ("patch", request("PATCH", &path, ["application/merge-patch+json", JSON], patch)),
        ];
        need_a_blocking_thread(&server, requests).await;
    });
}

#[test]
fn expensive_expressions_and_selections_of_large_objects_leave_the_executor_free() {
    on_two_threads(async {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
        let mut client = Client::over(server.connect()).await;
        let large = "x".repeat(1_000_000);
        for number in 0..2 {
            let data = format!(r#"}},"data":{{"k":"{large}""#);
            assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(&format!("large-{number}"), &data)).await.0, 201);
        }
        put_in_force(&mut client, r#""validations":[{"expression":"true"}]"#, r#""validationActions":["Deny"]"#).await;
        let rules = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Cluster",
            "names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
            "schema":{"openAPIV3Schema":{"type":"object","properties":{"list":{"type":"array","maxItems":200,
            "items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(a, a >= 0)"}]}}}}}]}}"#;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = client.call("POST", definitions, rules).await;
        assert_eq!(code, 201, "{answer}");
        let things = "/apis/example.com/v1/things";
        client.until(things, 200).await;
        let thing = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"generateName":"t-"},"list":[1]}"#;
        let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"small-"}}"#;
        // No equality, which would be looked up instead.
        let selected = format!("{CONFIG_MAPS}?fieldSelector=metadata.namespace%21%3Ddefault");
        let requests = vec![
            ("policy", request("POST", CONFIG_MAPS, [JSON; 2], config.to_owned())),
            ("rule", request("POST", things, [JSON; 2], thing.to_owned())),
            ("fields", request("GET", &selected, [JSON; 2], String::new())),
            ("collection", request("DELETE", &selected, [JSON; 2], String::new())),
        ];
        need_a_blocking_thread(&server, requests).await;
    });
}

#[test]
fn small_requests_stay_on_the_executor() {
    on_two_threads(async {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
        fill(&server, 10).await;
        let mut client = Client::over(server.connect()).await;
        // The only blocking thread is busy.
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || is_done.recv());
        let requests = async {
            assert_eq!(client.call("GET", CONFIG_MAPS, "").await.0, 200);
            assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/object-1"), "").await.0, 200);
            let patch = r#"{"data":{"a":"b"}}"#;
            assert_eq!(client.call("PATCH", &format!("{CONFIG_MAPS}/object-1"), patch).await.0, 200);
        };
        tokio::time::timeout(Duration::from_secs(30), requests).await.expect("they need no other thread");
        drop(done);
        assert!(busy.await.expect("no panic").is_err());
    });
}

#[test]
#[ignore = "creates 80,000 objects"]
fn health_checks_are_quick_during_large_lists() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = runtime.block_on(async {
        let server = ApiServer::in_memory().listen(address).plain_http().start().await.expect("a free port");
        fill(&server, 80_000).await;
        server
    });
    let address = server.address().expect("it listens");
    let lists = std::thread::spawn(move || list_for(address, Duration::from_secs(20)));
    let probing = std::thread::spawn(move || probe_for(address, Duration::from_secs(20)));
    let mut times = probing.join().expect("no panic");
    let listed = lists.join().expect("no panic");
    times.sort();
    let (median, last) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{} probes during {listed} lists: median {median:?}, p99 {last:?}", times.len());
    assert!(last < Duration::from_millis(100), "{last:?}");
}

fn probe_for(address: SocketAddr, time: Duration) -> Vec<Duration> {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
        let mut client = Client::over(TcpStream::connect(address).await.expect("it listens")).await;
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < time {
            let sent = Instant::now();
            assert_eq!(client.call("GET", "/livez", "").await.0, 200);
            times.push(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times
    })
}

/// Lists repeatedly on 16 connections, and counts the responses.
fn list_for(address: SocketAddr, time: Duration) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let clients: Vec<_> = (0..16).map(|_| tokio::spawn(list_in_turn(address, time))).collect();
        let mut count = 0;
        for client in clients {
            count += client.await.expect("no panic");
        }
        count
    })
}

/// Reads without decoding, to leave the CPU to the server.
async fn list_in_turn(address: SocketAddr, time: Duration) -> usize {
    let (start, mut count, mut buffer) = (Instant::now(), 0, vec![0; 256 << 10]);
    while start.elapsed() < time {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("it is open");
        let mut length = 0;
        while let read @ 1.. = socket.read(&mut buffer).await.expect("it is not reset") {
            length += read;
        }
        assert!(length > 80_000 * 100, "{length} bytes");
        count += 1;
    }
    count
}

#[tokio::test]
async fn the_collection_of_many_dependents_leaves_the_executor_free() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut client = Client::over(server.connect()).await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let reference = format!(
        r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{}"}}]"#,
        text(&owner, "metadata/uid")
    );
    for number in 0..1000 {
        let (code, _) = client.call("POST", CONFIG_MAPS, &config_map(&format!("d{number:04}"), &reference)).await;
        assert_eq!(code, 201);
    }
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/owner"), "").await.0, 200);
    while client.call("GET", &format!("{CONFIG_MAPS}/d0999"), "").await.0 != 404 {
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest = longest.max(last.elapsed());
    let total = start.elapsed();
    assert!(longest < total / 4, "{longest:?} of {total:?}");
}
