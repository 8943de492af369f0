//! The discovery cache during partial failures, concurrent requests, and with an unreliable disk.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use kubewright_client::Client;
use kubewright_client::discovery::{CachedDiscovery, Discovery, DiskCache, RestMapper};
use kubewright_client::transport::{ResponseFuture, Transport};
use kubewright_core::GroupVersionResource;
use tokio::sync::{Barrier, Semaphore, mpsc};
use tokio::time::timeout;

use crate::discovery::{AGGREGATED, document, resource_list};
use crate::script::{Answer, Script, answer};

/// A generous timeout.
const LONG: Duration = Duration::from_secs(60);

/// A script whose responses a test can delay.
struct Held<F> {
    script: Script,
    hold: F,
}

impl<F, H> Transport for Held<F>
where
    F: Fn(&str) -> H + Send + Sync + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let held = (self.hold)(request.uri().path());
        let answer = self.script.send(request);
        Box::pin(async move {
            held.await;
            answer.await
        })
    }
}

/// A document with stale groups.
fn stale(groups: &[&str]) -> Answer {
    let items: Vec<String> = groups
        .iter()
        .map(|group| {
            format!(r#"{{"metadata":{{"name":"{group}"}},"versions":[{{"version":"v1","freshness":"Stale"}}]}}"#)
        })
        .collect();
    answer(200, format!(r#"{{"items":[{}]}}"#, items.join(","))).header("content-type", AGGREGATED)
}

fn kind(name: &str) -> String {
    format!(r#"{{"name":"{name}","singularName":"","namespaced":true,"kind":"{name}","verbs":["get"]}}"#)
}

#[tokio::test]
async fn cached_groups_are_served_while_another_group_fails() {
    // DI-4, DI-5
    let script = Script::new([
        document(&[("", "v1", "pods")]),
        stale(&["example.com"]),
        document(&[("", "v1", "pods")]),
        stale(&["example.com"]),
        // On a miss, the failed version is requested again.
        resource_list("example.com/v1", &kind("foos")),
    ]);
    let mapper = script.client().rest_mapper();
    for _ in 0..5 {
        assert_eq!(mapper.find("pods").await.unwrap().resource.resource, "pods");
    }
    assert_eq!(script.asked().len(), 4, "two attempts at the beginning, and nothing more");
    assert_eq!(mapper.find("foos").await.unwrap().resource, GroupVersionResource::new("example.com", "v1", "foos"));
    assert_eq!(mapper.find("foos").await.unwrap().resource.group, "example.com");
    let more = &script.lines()[4..];
    assert!(more.len() == 1 && more[0].starts_with("GET /apis/example.com/v1?"), "{more:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_group_is_fetched_again_once_for_all_callers() {
    // DI-4
    let groups = ["a.example", "b.example", "c.example"];
    let script = Script::new([
        document(&[("", "v1", "pods")]),
        stale(&groups),
        document(&[("", "v1", "pods")]),
        stale(&groups),
        resource_list("a.example/v1", &kind("as")),
        resource_list("b.example/v1", ""),
        resource_list("c.example/v1", &kind("cs")),
    ]);
    let all = Arc::new(Barrier::new(groups.len()));
    let hold = move |path: &str| {
        let all = path.contains(".example").then(|| Arc::clone(&all));
        async move {
            if let Some(all) = all {
                all.wait().await;
            }
        }
    };
    let client = Client::over(Held { script: script.clone(), hold });
    let cached = CachedDiscovery::new(client.discovery());
    assert_eq!(cached.get().await.unwrap().failures.len(), 3);
    let users = async { tokio::join!(cached.get(), cached.get()) };
    let (first, second) = timeout(LONG, users).await.expect("none waits for the answer to another");
    let first = first.unwrap();
    assert_eq!(*first, *second.unwrap());
    let found: Vec<&str> = first.resources().map(|(_, one)| one.plural.as_str()).collect();
    assert_eq!(found, ["pods", "as", "cs"], "in the order of the server");
    assert_eq!(first.failures.len(), 1);
    assert_eq!(script.asked().len(), 7);
}

/// A transport that signals requests for `/api`, and answers them with a permit.
fn gated(script: &Script) -> (Client, mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
    let (asked, hears) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let pass = Arc::clone(&gate);
    let hold = move |path: &str| {
        let pass = (path == "/api").then(|| {
            asked.send(()).expect("the test listens");
            Arc::clone(&pass)
        });
        async move {
            if let Some(pass) = pass {
                pass.acquire().await.expect("it is never closed").forget();
            }
        }
    };
    (Client::over(Held { script: script.clone(), hold }), hears, gate)
}

fn both(groups: &[(&str, &str, &str)]) -> [Answer; 2] {
    [document(&[("", "v1", "pods")]), document(groups)]
}

#[tokio::test]
async fn a_response_requested_before_an_invalidation_is_not_cached() {
    // DI-4
    let directory = std::env::temp_dir().join(format!("kubewright-forget-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let script =
        Script::new(both(&[("example.com", "v1", "foos")]).into_iter().chain(both(&[("example.com", "v1", "bars")])));
    let (client, mut asked, gate) = gated(&script);
    let disk = DiskCache::new(&directory, Duration::from_secs(3600));
    let cached = CachedDiscovery::new(client.discovery()).disk(disk.clone());
    let first = tokio::spawn({
        let cached = cached.clone();
        async move { cached.get().await.unwrap() }
    });
    asked.recv().await.unwrap();
    cached.invalidate().await;
    let second = tokio::spawn({
        let cached = cached.clone();
        async move { cached.get().await.unwrap() }
    });
    gate.add_permits(2);
    let bars = GroupVersionResource::new("example.com", "v1", "bars");
    assert!(timeout(LONG, first).await.unwrap().unwrap().resource(&bars).is_none());
    assert!(timeout(LONG, second).await.unwrap().unwrap().resource(&bars).is_some(), "the second asks for itself");
    assert!(cached.get().await.unwrap().resource(&bars).is_some());
    let nobody = Script::default();
    let other = CachedDiscovery::new(nobody.client().discovery()).disk(disk);
    assert!(other.get().await.unwrap().resource(&bars).is_some(), "the disk has the later one");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_miss_during_another_refresh_fetches_again_without_blocking() {
    // DI-5
    let old = || both(&[("example.com", "v1", "foos")]);
    let new = both(&[("example.com", "v1", "bars")]);
    let script = Script::new(old().into_iter().chain(old()).chain(new));
    let (client, mut asked, gate) = gated(&script);
    let mapper = RestMapper::new(CachedDiscovery::new(client.discovery()));
    gate.add_permits(1);
    mapper.find("foos").await.unwrap();
    asked.recv().await.unwrap();
    let look_for = |name: &'static str| {
        let mapper = mapper.clone();
        tokio::spawn(async move { mapper.find(name).await })
    };
    let first = look_for("unicorns");
    asked.recv().await.unwrap();
    let known = timeout(LONG, mapper.find("pods")).await.expect("what is known is known while the server is asked");
    assert_eq!(known.unwrap().resource.resource, "pods");
    // In the meantime, bars are created.
    let second = look_for("bars");
    tokio::task::yield_now().await;
    gate.add_permits(2);
    assert!(timeout(LONG, first).await.unwrap().unwrap().unwrap_err().is_not_found());
    assert_eq!(timeout(LONG, second).await.unwrap().unwrap().unwrap().resource.resource, "bars");
}

fn tags(script: &Script) -> Vec<Option<String>> {
    let tag = |one: &crate::script::Asked| Some(one.headers.get("if-none-match")?.to_str().unwrap().to_owned());
    script.asked().iter().map(tag).collect()
}

#[tokio::test]
async fn a_truncated_document_on_disk_is_fetched_again() {
    // DI-4
    let directory = std::env::temp_dir().join(format!("kubewright-damaged-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let tagged = || both(&[("example.com", "v1", "foos")]).map(|document| document.header("etag", "\"1\""));
    let disk = DiskCache::new(&directory, Duration::from_secs(3600));
    let script = Script::new(tagged());
    let known = CachedDiscovery::new(script.client().discovery()).disk(disk.clone()).get().await.unwrap();
    let file = directory.join("api.http");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 7]).unwrap();
    std::fs::remove_file(directory.join("discovery.json")).unwrap();

    let [pods, _] = tagged();
    let script = Script::new([pods, answer(304, "").header("etag", "\"1\"")]);
    let again = CachedDiscovery::new(script.client().discovery()).disk(disk).get().await.unwrap();
    assert_eq!(*again, *known);
    assert_eq!(tags(&script), [None, Some("\"1\"".to_owned())]);
    assert_eq!(std::fs::read(&file).unwrap(), whole, "it is whole again");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn an_undecodable_response_is_not_cached_by_its_etag() {
    // DI-4
    let half = answer(200, r#"{"items":["#).header("content-type", AGGREGATED).header("etag", "\"1\"");
    let script = Script::new([half].into_iter().chain(both(&[("example.com", "v1", "foos")])));
    let discovery = script.client().discovery();
    assert!(discovery.discover().await.is_err());
    assert_eq!(discovery.discover().await.unwrap().resources().count(), 2);
    assert_eq!(tags(&script), [None, None, None]);
}

fn served(discovery: &Discovery) -> Vec<String> {
    discovery.group_versions().map(|version| version.to_string()).collect()
}

#[tokio::test]
async fn a_recovered_group_returns_to_its_position_in_the_servers_order() {
    // DI-4
    let core = || answer(200, r#"{"kind":"APIVersions","versions":["v1"]}"#);
    let versions = |group: &str, all: [&str; 3]| {
        let all = all.map(|version| format!(r#"{{"groupVersion":"{group}/{version}","version":"{version}"}}"#));
        format!(r#"{{"name":"{group}","versions":[{}]}}"#, all.join(","))
    };
    let groups = || {
        let groups = [versions("z.example", ["v2", "v1", "v1beta1"]), versions("a.example", ["v3", "v2", "v1"])];
        answer(200, format!(r#"{{"kind":"APIGroupList","groups":[{}]}}"#, groups.join(",")))
    };
    let busy = || answer(503, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":503}"#);
    let found = |version: &str| resource_list(version, &kind("foos"));
    let round = || {
        let answers = [found("v1"), busy(), busy(), busy(), busy(), found("a.example/v2"), busy()];
        [core(), groups()].into_iter().chain(answers)
    };
    // Failures are retried in the order of their names.
    let mended = [busy(), found("a.example/v3"), found("z.example/v1"), busy(), found("z.example/v2")];
    let again = [found("a.example/v1"), found("z.example/v1beta1")];
    let script = Script::new(round().chain(round()).chain(mended).chain(again));
    let cached = CachedDiscovery::new(script.client().retries(0).discovery().legacy());
    assert_eq!(served(&cached.get().await.unwrap()), ["v1", "a.example/v2"]);
    let partial = ["v1", "z.example/v2", "z.example/v1", "a.example/v3", "a.example/v2"];
    assert_eq!(served(&cached.get().await.unwrap()), partial);
    let whole =
        ["v1", "z.example/v2", "z.example/v1", "z.example/v1beta1", "a.example/v3", "a.example/v2", "a.example/v1"];
    let known = cached.get().await.unwrap();
    assert_eq!(served(&known), whole);
    let preferred: Vec<String> = known.preferred_resources().map(|(version, _)| version.to_string()).collect();
    assert_eq!(preferred, ["v1", "z.example/v2", "a.example/v3"]);
}

#[tokio::test]
async fn a_stale_version_returns_to_its_position_by_preference() {
    // DI-4
    let round = || {
        let versions = r#"{"version":"v2","freshness":"Stale"},{"version":"v1","freshness":"Current","resources":[
            {"resource":"foos","responseKind":{"group":"example.com","version":"v1","kind":"Foo"},"scope":"Cluster","verbs":["get"]}]}"#;
        let groups = format!(r#"{{"items":[{{"metadata":{{"name":"example.com"}},"versions":[{versions}]}}]}}"#);
        [document(&[("", "v1", "pods")]), answer(200, groups).header("content-type", AGGREGATED)]
    };
    let script =
        Script::new(round().into_iter().chain(round()).chain([resource_list("example.com/v2", &kind("foos"))]));
    let cached = CachedDiscovery::new(script.client().discovery());
    assert_eq!(served(&cached.get().await.unwrap()), ["v1", "example.com/v1"]);
    assert_eq!(served(&cached.get().await.unwrap()), ["v1", "example.com/v2", "example.com/v1"]);
}
