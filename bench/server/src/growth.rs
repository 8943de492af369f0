//! Growth of the embedded server's costs with the number of objects, watches and definitions.
//!
//! The server is called as a function, so that neither sockets nor a client are measured. Each size
//! runs in a process of its own and prints one line of JSON. Costs are CPU time of the whole
//! process.

use std::fs::{read_dir, read_to_string};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Request};
use kubewright::apiserver::{ApiServer, ResponseBody, Service};
use tokio::sync::Semaphore;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The stored JSON of each ConfigMap has about this length.
const OBJECT_BYTES: usize = 1000;
/// Bytes of it that are not data: names, metadata and managed fields.
const OTHER_BYTES: usize = 398;
const GETS: usize = 2000;
const PAGES: usize = 20;
const PAGE: usize = 500;
const EVENTS: usize = 1000;
/// Number of requests for each document, each after a change.
const ROUNDS: usize = 5;

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let threads = read_dir("/proc/self/task").expect("Linux").flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let times = read_to_string(thread.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// A line of `/proc/self/status`, in kilobytes.
fn kilobytes(name: &str) -> f64 {
    let status = read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).expect("a number")
}

/// Sends a request and returns the response, which must be a success.
async fn send(service: &Service, method: Method, path: &str, accept: &str, body: String) -> ResponseBody {
    let request = Request::builder().method(method).uri(path).header("accept", accept);
    let request = request.header("content-type", "application/json").body(Bytes::from(body)).expect("a request");
    let response = service.call(request).await.expect("no fault was injected");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.into_body()
}

/// Reads a body to its end and returns its length.
async fn drain(mut body: ResponseBody) -> usize {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.expect("it does not break").into_data().map_or(0, |data| data.len());
    }
    length
}

async fn get(service: &Service, path: &str, accept: &str) -> usize {
    drain(send(service, Method::GET, path, accept, String::new()).await).await
}

async fn post(service: &Service, path: &str, body: String) {
    drain(send(service, Method::POST, path, "application/json", body).await).await;
}

/// Runs a future, and returns its output with the CPU seconds used.
async fn measured<T>(work: impl Future<Output = T>) -> (T, f64) {
    let before = cpu_seconds();
    (work.await, cpu_seconds() - before)
}

/// Many ConfigMaps: costs of create, get, a page, and complete lists in three formats, and memory
/// per object.
pub async fn objects(count: usize) {
    let server = ApiServer::in_memory().start().await.expect("a server");
    let service = &server.service();
    let data = "x".repeat(OBJECT_BYTES - OTHER_BYTES);
    let object = |number: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"object-{number:07}"}},"data":{{"k":"{data}"}}}}"#
        )
    };
    let before = kilobytes("VmRSS");
    let ((), create) = measured(async {
        for number in 0..count {
            post(service, CONFIG_MAPS, object(number)).await;
        }
    })
    .await;
    let stored = get(service, &format!("{CONFIG_MAPS}/object-0000000"), "application/json").await;
    let memory = (kilobytes("VmRSS") - before) * 1024.0 / count as f64;
    let ((), one) = measured(async {
        for number in 0..GETS {
            let number = number * 7919 % count;
            get(service, &format!("{CONFIG_MAPS}/object-{number:07}"), "application/json").await;
        }
    })
    .await;
    let (pages, paged) = measured(pages(service)).await;
    let mut lists = Vec::new();
    for (name, accept) in [("list", "application/json"), ("table", TABLE), ("protobuf", PROTOBUF)] {
        let (length, cpu) = measured(get(service, CONFIG_MAPS, accept)).await;
        assert!(length > count, "{name}");
        lists.push(format!(r#""{name}_cpu_s": {cpu:.3}, "{name}_us_per_object": {:.3}"#, cpu * 1e6 / count as f64));
    }
    let peak = (kilobytes("VmHWM") - before) * 1024.0 / count as f64;
    println!(
        r#"{{"case": "objects", "size": {count}, "create_us": {:.2}, "get_us": {:.2}, "page_us": {:.1}, {}, "stored_bytes": {stored}, "bytes_per_object": {memory:.0}, "peak_bytes_per_object": {peak:.0}}}"#,
        create * 1e6 / count as f64,
        one * 1e6 / GETS as f64,
        paged * 1e6 / pages as f64,
        lists.join(", "),
    );
}

/// Reads the first pages of the list, each with the token of the one before.
async fn pages(service: &Service) -> usize {
    let mut path = format!("{CONFIG_MAPS}?limit={PAGE}");
    for page in 1..=PAGES {
        let body = send(service, Method::GET, &path, "application/json", String::new()).await;
        let body = body.collect().await.expect("it does not break").to_bytes();
        let start = String::from_utf8_lossy(&body[..400.min(body.len())]).into_owned();
        let Some((_, rest)) = start.split_once(r#""continue":""#) else { return page };
        let token = rest.split('"').next().unwrap_or_default();
        path = format!("{CONFIG_MAPS}?limit={PAGE}&continue={token}");
    }
    PAGES
}

/// The current resource version.
async fn version(service: &Service) -> String {
    let path = format!("{CONFIG_MAPS}?limit=1");
    let body = send(service, Method::GET, &path, "application/json", String::new()).await;
    let body = body.collect().await.expect("it does not break").to_bytes();
    let start = String::from_utf8_lossy(&body).into_owned();
    let (_, rest) = start.split_once(r#""resourceVersion":""#).expect("a version");
    rest.split('"').next().unwrap_or_default().to_owned()
}

/// Many watches, each of the pods of one node: cost of a create and of its event, which only one of
/// them gets.
pub async fn watches(count: usize) {
    let server = ApiServer::in_memory().start().await.expect("a server");
    let service = &server.service();
    let pod = |prefix: &str, number: usize| {
        let node = number * 7919 % count;
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{prefix}-{number}"}},"spec":{{"nodeName":"n{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    let ((), alone) = measured(async {
        for number in 0..EVENTS {
            post(service, PODS, pod("alone", number)).await;
        }
    })
    .await;
    let version = version(service).await;
    let seen = Arc::new(Semaphore::new(0));
    let before = kilobytes("VmRSS");
    for node in 0..count {
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3Dn{node}");
        let mut body = send(service, Method::GET, &path, "application/json", String::new()).await;
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(Ok(_)) = body.frame().await {
                seen.add_permits(1);
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let memory = (kilobytes("VmRSS") - before) * 1024.0 / count as f64;
    let ((), watched) = measured(async {
        for number in 0..EVENTS {
            post(service, PODS, pod("watched", number)).await;
            seen.acquire().await.expect("it is open").forget();
        }
    })
    .await;
    println!(
        r#"{{"case": "watches", "size": {count}, "alone_us": {:.1}, "event_us": {:.1}, "bytes_per_watch": {memory:.0}}}"#,
        alone * 1e6 / EVENTS as f64,
        watched * 1e6 / EVENTS as f64,
    );
}

/// Many CustomResourceDefinitions: cost of installing one, and of the documents that list them all.
pub async fn definitions(count: usize) {
    let server = ApiServer::in_memory().start().await.expect("a server");
    let service = &server.service();
    let before = kilobytes("VmRSS");
    let install = async |from: usize, to: usize| {
        for number in from..to {
            // Like large operators: some groups with many kinds each.
            let group = format!("group{}.example.com", number / 50);
            post(service, DEFINITIONS, definition(&group, number)).await;
        }
    };
    // CPU time advances in ticks, so that few installs cannot be measured.
    let last = (count / 10).max(100).min(count);
    let ((), first) = measured(install(0, count - last)).await;
    let ((), rest) = measured(install(count - last, count)).await;
    let memory = (kilobytes("VmRSS") - before) * 1024.0 / count as f64;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let documents = [
        ("discovery", "/apis", aggregated),
        ("openapi_v2", "/openapi/v2", "application/json"),
        ("openapi_v3", "/openapi/v3", "application/json"),
        ("openapi_v3_group", "/openapi/v3/apis/group0.example.com/v1", "application/json"),
    ];
    let mut costs = [0.0; 4];
    for round in 0..ROUNDS {
        install(count + round, count + round + 1).await;
        for ((_, path, accept), cost) in documents.iter().zip(&mut costs) {
            *cost += measured(get(service, path, accept)).await.1;
        }
    }
    let documents = documents.iter().zip(costs);
    let documents: Vec<String> =
        documents.map(|((name, ..), cost)| format!(r#""{name}_ms": {:.2}"#, cost * 1e3 / ROUNDS as f64)).collect();
    println!(
        r#"{{"case": "definitions", "size": {count}, "install_us": {:.0}, "last_install_us": {:.0}, {}, "bytes_per_definition": {memory:.0}}}"#,
        (first + rest) * 1e6 / count as f64,
        rest * 1e6 / last as f64,
        documents.join(", "),
    );
}

fn definition(group: &str, number: usize) -> String {
    let fields: Vec<String> = (0..20)
        .map(|field| format!(r#""field{field}":{{"type":"string","description":"What field {field} is for."}}"#))
        .collect();
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"kind{number}s.{group}"}},"spec":{{"group":"{group}","scope":"Namespaced","names":{{"plural":"kind{number}s","kind":"Kind{number}"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{}}}}},"status":{{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}}}}}]}}}}"#,
        fields.join(",")
    )
}
