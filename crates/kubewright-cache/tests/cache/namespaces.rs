//! Caches of several namespaces, each listed and watched separately.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::{ApiServer, Fault, RunningServer};
use kubewright_cache::{
    Event, FactoryOptions, InformerHandle, InformerScope, QueueKind, ReflectorOptions, SharedIndexInformer,
    SharedInformerFactory,
};
use kubewright_client::{Api, Client};
use kubewright_core::{AllNamespaces, GroupVersionResource, Object, Str};
use tokio_util::sync::CancellationToken;

use crate::factory::{config_map, eventually};

/// A server with three namespaces, a client, and a log of its requests.
struct Cluster {
    server: RunningServer,
    client: Client,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::in_memory().start().await.expect("it starts");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (asked, inner) = (requests.clone(), server.client());
        let client = Client::over(move |request: http::Request<bytes::Bytes>| {
            asked.lock().unwrap().push(request.uri().to_string());
            inner.transport().send(request)
        });
        let cluster = Cluster { server, client, requests };
        for name in ["a", "b", "c"] {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.into());
            Api::<Namespace>::all(&cluster.client).create(&namespace).await.unwrap();
        }
        cluster
    }

    async fn create(&self, namespace: &str, name: &str) -> ConfigMap {
        self.maps(namespace).create(&config_map(name)).await.unwrap()
    }

    async fn change(&self, namespace: &str, name: &str, to: &str) -> ConfigMap {
        let mut map = self.maps(namespace).get(name).await.unwrap();
        map.data.insert("key", Str::from(to));
        self.maps(namespace).update(&map).await.unwrap()
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(&self.client, namespace.to_owned())
    }

    /// Requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn factory(&self, options: FactoryOptions) -> SharedInformerFactory {
        SharedInformerFactory::new(&self.client, options)
    }
}

/// A cluster with an object in each of two namespaces, and a synced cache of both.
async fn two(options: FactoryOptions) -> (Cluster, SharedInformerFactory, InformerHandle<ConfigMap>) {
    let cluster = Cluster::start().await;
    cluster.create("a", "x").await;
    cluster.create("b", "x").await;
    let factory = cluster.factory(options.namespaces(["a", "b"]));
    let maps = factory.informer::<ConfigMap>();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await.unwrap();
    (cluster, factory, maps)
}

/// All objects as `namespace/name=value`.
fn contents(informer: &SharedIndexInformer<ConfigMap>) -> Vec<String> {
    let mut contents: Vec<String> = informer
        .store()
        .snapshot()
        .iter()
        .filter(|map| map.name() != "kube-root-ca.crt")
        .map(|map| format!("{}/{}={}", map.namespace(), map.name(), map.data.get("key").map_or("", |text| text)))
        .collect();
    contents.sort();
    contents
}

/// The events of a handler, as `+a/x@7`.
fn log(informer: &InformerHandle<ConfigMap>) -> Arc<Mutex<Vec<String>>> {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = log.clone();
    let handler = move |event: &Event<ConfigMap>| {
        let (sign, version) = match event {
            Event::Added { object, .. } => ("+", object.resource_version()),
            Event::Updated { new, .. } => ("~", new.resource_version()),
            Event::Deleted(deleted) => ("-", deleted.object().map_or("", |object| object.resource_version())),
        };
        if event.key().name().as_str() != "kube-root-ca.crt" {
            told.lock().unwrap().push(format!("{sign}{}@{version}", event.key()));
        }
    };
    informer.add_handler(handler).unwrap();
    log
}

fn path_and_version(uri: &str) -> (String, String) {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or_default();
    (path[path.find("/api").unwrap_or(0)..].to_owned(), version.to_owned())
}

#[tokio::test]
async fn a_cache_of_several_namespaces_requests_only_these() {
    for options in [
        FactoryOptions::default(),
        FactoryOptions::default().reflector(ReflectorOptions::default().without_streaming_lists().page_size(1)),
        FactoryOptions::default().queue(QueueKind::DeltaFifo),
    ] {
        let cluster = Cluster::start().await;
        for (namespace, name) in [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x")] {
            cluster.create(namespace, name).await;
        }
        cluster.requests();
        let factory = cluster.factory(options.namespaces(["b", "a", "b"]));
        let maps = factory.informer::<ConfigMap>();
        assert_eq!(maps.namespaces(), ["a", "b"]);
        assert_eq!((maps.covers("a"), maps.covers("c"), maps.covers("")), (true, false, true));
        let only_a = factory.informer_with(InformerScope::<ConfigMap>::default().namespace("a"));
        assert_eq!((only_a.covers("a"), only_a.covers("b"), only_a.covers("")), (true, false, false));
        drop(only_a);
        assert_eq!(factory.unsynced()[0].to_string(), "configmaps in a, b (not started)");
        factory.start(&CancellationToken::new());
        factory.wait_for_cache_sync().await.unwrap();
        assert_eq!(contents(&maps), ["a/x=value", "a/y=value", "b/x=value"]);

        cluster.create("b", "z").await;
        cluster.create("c", "z").await;
        cluster.change("a", "x", "new").await;
        cluster.maps("a").delete("y").await.unwrap();
        eventually("all changes", || contents(&maps) == ["a/x=new", "b/x=value", "b/z=value"]).await;

        let asked = cluster.requests();
        let paths = asked.iter().map(|uri| path_and_version(uri).0).filter(|path| path.ends_with("/configmaps"));
        let mut reads: Vec<String> = paths.filter(|path| !path.contains("/c/")).collect();
        reads.sort();
        reads.dedup();
        assert_eq!(reads, ["/api/v1/namespaces/a/configmaps", "/api/v1/namespaces/b/configmaps"], "{asked:?}");
        factory.shutdown().await;
    }
}

#[tokio::test]
async fn watches_that_end_are_resumed_each_from_its_own_version() {
    let (cluster, factory, maps) = two(FactoryOptions::default()).await;
    let log = log(&maps);
    let first = cluster.change("a", "x", "1").await;
    let second = cluster.change("b", "x", "2").await;
    let third = cluster.change("b", "x", "3").await;
    eventually("the changes", || contents(&maps) == ["a/x=1", "b/x=3"]).await;

    cluster.requests();
    // A watch that ends within a second without events counts as failed, and is followed by a list.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    cluster.server.faults().cut_watches();
    let is_watch = |uri: &&String| uri.contains("watch=true") || uri.contains("watch=1");
    eventually("both watches again", || cluster.requests.lock().unwrap().iter().filter(is_watch).count() >= 2).await;
    let last = cluster.change("a", "x", "4").await;
    eventually("the last change", || contents(&maps) == ["a/x=4", "b/x=3"]).await;

    let asked = cluster.requests();
    let mut resumed: Vec<(String, String)> = asked.iter().filter(is_watch).map(|uri| path_and_version(uri)).collect();
    resumed.sort();
    let version = |map: &ConfigMap| map.resource_version().to_owned();
    let path = |namespace| format!("/api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(resumed, [(path("a"), version(&first)), (path("b"), version(&third))], "{asked:?}");
    let changes: Vec<String> = log.lock().unwrap().iter().filter(|event| event.starts_with('~')).cloned().collect();
    let told = |namespace: &str, map: &ConfigMap| format!("~{namespace}/x@{}", version(map));
    let mut expected = [told("a", &first), told("b", &second), told("b", &third), told("a", &last)];
    let mut sorted = changes.clone();
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected, "{changes:?}");
    factory.shutdown().await;
}

#[tokio::test]
async fn changes_during_an_expired_watch_are_found_by_a_relist() {
    for options in [
        FactoryOptions::default(),
        FactoryOptions::default().reflector(ReflectorOptions::default().without_streaming_lists()),
    ] {
        let (cluster, factory, maps) = two(options).await;
        // The watch misses these changes.
        cluster.server.faults().inject(Fault::answer(503).verb("watch").resource("configmaps"));
        cluster.server.faults().inject(Fault::answer(503).verb("list").resource("configmaps"));
        cluster.server.faults().cut_watches();
        cluster.create("b", "y").await;
        cluster.maps("a").delete("x").await.unwrap();
        cluster.server.faults().compact();
        cluster.server.faults().clear();
        eventually("the truth", || contents(&maps) == ["b/x=value", "b/y=value"]).await;
        factory.shutdown().await;
    }
}

// Waiting for one's own write must not be satisfied by a newer version of another namespace.
#[tokio::test]
async fn the_version_of_one_namespace_does_not_advance_that_of_another() {
    let (cluster, factory, maps) = two(FactoryOptions::default()).await;
    let before = maps.store().snapshot();
    let changed = cluster.change("a", "x", "new").await;
    eventually("the change", || contents(&maps)[0] == "a/x=new").await;
    let after = maps.store().snapshot();
    assert_eq!(after.resource_version_of("a"), changed.resource_version());
    assert_eq!(after.resource_version_of("b"), before.resource_version_of("b"));
    assert!(after.resource_version_of("b") < after.resource_version_of("a"));
    cluster.maps("b").delete("x").await.unwrap();
    eventually("the deletion", || maps.store().len() < after.len()).await;
    let last = maps.store().snapshot();
    assert!(last.resource_version_of("b") > last.resource_version_of("a"), "a deletion has a version as well");
    factory.shutdown().await;
}

// With either queue, also without objects.
#[tokio::test]
async fn a_cache_has_the_version_of_its_list() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let all = FactoryOptions::default();
        for options in [all.clone(), all.clone().namespace("a"), all.clone().namespaces(["a", "b"])] {
            let cluster = Cluster::start().await;
            let made = cluster.create("a", "x").await;
            let last = cluster.create("c", "x").await;
            let factory = cluster.factory(options.queue(queue));
            let full = factory.informer::<ConfigMap>();
            let empty =
                factory.informer_with(InformerScope::<ConfigMap>::default().labels("app=none".parse().unwrap()));
            factory.start(&CancellationToken::new());
            factory.wait_for_cache_sync().await.unwrap();
            for maps in [full, empty] {
                let has_come =
                    |to: &ConfigMap| *maps.store().snapshot().resource_version_of("a") >= to.resource_version().into();
                eventually("the version of the list", || has_come(&made) && has_come(&last)).await;
            }
            factory.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_namespace_that_becomes_unreadable_does_not_delay_the_others() {
    for code in [403, 404] {
        let (cluster, factory, maps) = two(FactoryOptions::default()).await;
        for verb in ["list", "watch"] {
            cluster.server.faults().inject(Fault::answer(code).verb(verb).resource("configmaps").namespace("b"));
        }
        cluster.server.faults().cut_watches();
        eventually("that it is told", || maps.health().is_some_and(|health| health.failures > 0)).await;
        cluster.create("a", "y").await;
        eventually("an object in a", || contents(&maps).contains(&"a/y=value".to_owned())).await;
        assert!(contents(&maps).contains(&"b/x=value".to_owned()), "neither answer is a deletion");
        cluster.server.faults().clear();
        cluster.create("b", "y").await;
        eventually("b again", || contents(&maps).contains(&"b/y=value".to_owned())).await;
        factory.shutdown().await;
    }
}

// RE-17, SI-5: an unreadable namespace does not prevent the resync of the others.
#[tokio::test]
async fn a_namespace_that_cannot_be_read_does_not_end_resyncs() {
    for unreadable in ["a", "b"] {
        let options = FactoryOptions::default().resync_every(Duration::from_secs(1));
        let (cluster, factory, maps) = two(options).await;
        for verb in ["list", "watch"] {
            cluster.server.faults().inject(Fault::answer(403).verb(verb).resource("configmaps").namespace(unreadable));
        }
        cluster.server.faults().cut_watches();
        eventually("the failure", || maps.health().is_some_and(|health| health.failures > 0)).await;
        let resyncs = Arc::new(AtomicUsize::new(0));
        let count = resyncs.clone();
        let handler = move |event: &Event<ConfigMap>| {
            let is_resync = event.is_resync() && event.key().namespace() != unreadable;
            count.fetch_add(usize::from(is_resync), Ordering::Relaxed);
        };
        maps.add_handler(handler).unwrap();
        eventually("two resyncs", || resyncs.load(Ordering::Relaxed) >= 2).await;
        factory.shutdown().await;
    }
}

#[tokio::test]
async fn an_unreadable_namespace_keeps_the_cache_unsynced_and_is_reported() {
    let cluster = Cluster::start().await;
    cluster.create("a", "x").await;
    for verb in ["list", "watch"] {
        cluster.server.faults().inject(Fault::answer(403).verb(verb).resource("configmaps").namespace("b"));
    }
    let factory = cluster.factory(FactoryOptions::default().namespaces(["a", "b"]));
    let maps = factory.informer::<ConfigMap>();
    factory.start(&CancellationToken::new());
    eventually("the failure", || factory.unsynced()[0].to_string().contains("cannot list")).await;
    assert!(!maps.has_synced());
    cluster.server.faults().clear();
    factory.wait_for_cache_sync().await.unwrap();
    assert_eq!(contents(&maps), ["a/x=value"]);
    factory.shutdown().await;
}

#[tokio::test]
async fn all_kinds_of_informers_support_several_namespaces() {
    let cluster = Cluster::start().await;
    for namespace in ["a", "b", "c"] {
        cluster.create(namespace, "x").await;
    }
    let options = FactoryOptions::default().namespaces(["a", "b"]).namespaces_of::<ConfigMap>(["b", "c"]);
    let factory = cluster.factory(options);
    let resource = GroupVersionResource::new("", "v1", "configmaps");
    let metadata = factory.metadata(resource.clone(), InformerScope::default());
    let dynamic = factory.dynamic(resource, InformerScope::default().namespaces(["a", "c"]));
    let typed = factory.informer::<ConfigMap>();
    let all = factory.informer_with::<ConfigMap>(InformerScope::default().namespace(AllNamespaces));
    let of_cluster = factory.informer::<Namespace>();
    let stop = CancellationToken::new();
    factory.start(&stop);
    factory.wait_for_cache_sync().await.unwrap();
    let count = |namespaces: &mut dyn Iterator<Item = String>| {
        let mut namespaces: Vec<String> = namespaces.collect();
        namespaces.sort();
        namespaces.join("")
    };
    let spaces = |snapshot: &[Arc<ConfigMap>]| {
        count(&mut snapshot.iter().filter(|map| map.name() == "x").map(|map| map.namespace().to_owned()))
    };
    assert_eq!(spaces(&typed.store().snapshot().to_vec()), "bc");
    assert_eq!(spaces(&all.store().snapshot().to_vec()), "abc");
    let snapshot = metadata.store().snapshot();
    assert_eq!(count(&mut snapshot.iter().filter(|one| one.name() == "x").map(|one| one.namespace().to_owned())), "ab");
    let snapshot = dynamic.store().snapshot();
    assert_eq!(count(&mut snapshot.iter().filter(|one| one.name() == "x").map(|one| one.namespace().to_owned())), "ac");
    assert!(of_cluster.namespaces().is_empty() && of_cluster.store().len() >= 3);
    stop.cancel();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_a_name_is_not_the_whole_cluster() {
    let cluster = Cluster::start().await;
    cluster.create("a", "x").await;
    let none: [&str; 0] = [];
    for (options, requested) in [
        (FactoryOptions::default().namespace(""), "the whole cluster"),
        (FactoryOptions::default().namespaces(none), "no namespace"),
        (FactoryOptions::default().namespaces(["a", ""]), "a namespace and an empty name"),
    ] {
        let factory = cluster.factory(options);
        let maps = factory.informer::<ConfigMap>();
        let stop = CancellationToken::new();
        factory.start(&stop);
        let error = factory.wait_for_cache_sync_within(Duration::from_secs(10)).await.expect_err(requested);
        assert!(error.to_string().contains("AllNamespaces selects all"), "{requested}: {error}");
        assert!(maps.store().snapshot().iter().all(|map| map.namespace() == "a"), "{requested}");
        stop.cancel();
        factory.shutdown().await;
    }
}
