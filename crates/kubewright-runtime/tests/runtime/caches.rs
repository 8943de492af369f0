//! Reads of a reconciler with incomplete caches: namespaces, selectors, indices, kinds known at run
//! time.

use kubewright_api::core::v1::{ConfigMap, Namespace, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_cache::{FactoryOptions, Indexers};
use kubewright_client::Api;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{AllNamespaces, DynamicObject, Object, ObjectKey, Selector, Str};
use kubewright_runtime::ownership::controller_reference;
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{Context, Freshness, Manager, ManagerOptions, Outcome, Owns, Watches};
use kubewright_yaml as yaml;

use crate::support::{Journal, config_map, config_maps, server, touch};

async fn secret(server: &RunningServer, namespace: &str, name: &str, colour: &str) {
    let mut secret = Secret::default();
    secret.set_name(name);
    secret.metadata.labels.insert("colour", colour.into());
    Api::<Secret>::namespaced(&server.client(), namespace).create(&secret).await.unwrap();
}

fn colour(secret: &Secret) -> Option<Str> {
    secret.metadata.labels.get("colour").cloned()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_caches_leave_out_is_read_from_the_server() {
    let cluster = TestCluster::over(server().await);
    secret(cluster.server(), "kube-system", "there", "blue").await;
    config_maps(cluster.server()).create(&config_map("a")).await.unwrap();
    let mut manager = Manager::new(&cluster.client(), ManagerOptions::default().namespace("default"));
    let journal = Journal::default();
    let noted = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").owns::<Secret>();
    let reconciled = maps.reconciling(move |_, context: Context| {
        let journal = noted.clone();
        async move {
            let there = context.api::<Secret>("kube-system");
            let found = there.get("there", Freshness::Cached).await?.is_some();
            let count = there.list(&Selector::everything(), Freshness::AtLeastMyWrites).await?.len();
            journal.note(format!("{found} {count}"));
            // The cache never shows this, so nothing waits for it.
            there
                .create_or_update("there", |secret| {
                    secret.metadata.labels.insert("colour", "red".into());
                    Ok(())
                })
                .await?;
            Ok(Outcome::Done)
        }
    });
    manager.add(reconciled).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    assert_eq!(journal.take(), ["true 1"]);
    let start = tokio::time::Instant::now();
    touch(cluster.server(), "a", "again").await;
    running.until_idle().await;
    assert_eq!(journal.take(), ["true 1"]);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    running.stop().await.unwrap();
}

// A write is waited for in its own namespace, independent of events in the other one.
#[tokio::test(start_paused = true)]
async fn a_manager_of_several_namespaces_has_one_cache_of_them() {
    let cluster = TestCluster::over(server().await);
    for namespace in ["default", "kube-system", "kube-public"] {
        let mut map = config_map("a");
        map.set_namespace(namespace);
        Api::<ConfigMap>::namespaced(&cluster.client(), namespace).create(&map).await.unwrap();
    }
    let options = ManagerOptions::default().namespaces(["default", "kube-system"]);
    let mut manager = Manager::new(&cluster.client(), options);
    let journal = Journal::default();
    let noted = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").owns::<Secret>();
    let reconciled = maps.reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            if map.name() != "a" {
                return Ok(Outcome::Done);
            }
            let secrets = context.api::<Secret>(map.namespace());
            if secrets.list(&Selector::everything(), Freshness::AtLeastMyWrites).await?.is_empty() {
                let mut secret = Secret::default();
                secret.metadata.generate_name = Some("one-".into());
                secret.metadata.owner_references = [controller_reference(&*map)].into();
                secrets.create(&secret).await?;
            }
            let count = secrets.list(&Selector::everything(), Freshness::AtLeastMyWrites).await?.len();
            // All namespaces means those of this manager.
            let all = context.api::<ConfigMap>(AllNamespaces);
            let maps = all.list(&Selector::everything(), Freshness::Cached).await?;
            let named = maps.iter().filter(|map| map.name() == "a").count();
            let here = all.by_index("namespace", map.namespace(), Freshness::Cached).await?;
            let here = here.iter().filter(|map| map.name() == "a").count();
            // A namespace without a name is neither.
            let unnamed = context.api::<Secret>("");
            let listed = unnamed.list(&Selector::everything(), Freshness::Cached).await;
            let is_refused = listed.is_err() && unnamed.get("a", Freshness::Cached).await.is_err();
            journal.note(format!("{} {count} {named} {here} {is_refused}", map.namespace()));
            Ok(Outcome::Done)
        }
    });
    manager.add(reconciled).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    let mut seen = journal.take();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["default 1 2 1 true", "kube-system 1 2 1 true"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_are_watched_regardless_of_the_managers_namespaces() {
    let cluster = TestCluster::over(server().await);
    config_maps(cluster.server()).create(&config_map("a")).await.unwrap();
    let mut manager = Manager::new(&cluster.client(), ManagerOptions::default().namespace("default"));
    let journal = Journal::default();
    let (noted, named) = (journal.clone(), journal.clone());
    let to_a = |_: &PartialObjectMetadata| vec![ObjectKey::namespaced("default", "a")];
    let maps = manager.controller::<ConfigMap>("maps").watches_with(Watches::metadata::<Namespace>(to_a));
    manager
        .add(maps.reconciling(move |map, context: Context| {
            let journal = noted.clone();
            async move {
                if map.name() == "a" && context.reasons().iter().any(|reason| reason.source == "namespaces") {
                    journal.note("a namespace");
                }
                Ok(Outcome::Done)
            }
        }))
        .unwrap();
    let mapping = cluster.client().rest_mapper().find("namespaces").await.unwrap();
    let namespaces = manager.dynamic_controller("namespaces", &mapping).reconciling(move |namespace, _| {
        let journal = named.clone();
        async move {
            journal.note(namespace.name().to_owned());
            Ok(Outcome::Done)
        }
    });
    manager.add(namespaces).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    let mut seen = journal.take();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["a namespace", "default", "kube-node-lease", "kube-public", "kube-system"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_complete_is_not_taken_for_the_truth() {
    let cluster = TestCluster::over(server().await);
    secret(cluster.server(), "default", "there", "blue").await;
    config_maps(cluster.server()).create(&config_map("a")).await.unwrap();
    // The informer of secrets cannot watch; other requests succeed.
    cluster.faults().inject(Fault::answer(403).resource("secrets").verb("watch"));
    cluster.faults().inject(Fault::answer(403).resource("secrets").verb("list").times(3));
    let mut manager = cluster.manager();
    let journal = Journal::default();
    let noted = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").owns_with(Owns::<Secret>::new().optional());
    let reconciled = maps.reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            if map.name() == "a" {
                let secrets = context.api::<Secret>("default");
                let is_complete = context.has_synced::<Secret>();
                let found = secrets.get("there", Freshness::Cached).await?.is_some();
                journal.note(format!("complete {is_complete}, found {found}"));
                let error = secrets.by_index("namespace", "default", Freshness::Cached).await.map(drop);
                journal.note(error.map_or_else(|error| error.to_string(), |()| "read".to_owned()));
            }
            Ok(Outcome::Done)
        }
    });
    manager.add(reconciled).unwrap();
    let handle = manager.handles().remove(0);
    let running = cluster.run(manager);
    crate::support::eventually("it is reconciled", async || journal.len() > 1).await;
    let said = journal.take();
    assert_eq!(said[0], "complete false, found true");
    // An index of such a cache is not read either: the server is asked, and refuses.
    assert_eq!(said[1], "a fault was injected (list secrets)");
    assert!(!handle.health().is_healthy());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn caches_of_one_type_can_be_cut_and_indexed() {
    let cluster = TestCluster::over(server().await);
    for (name, colour) in [("one", "blue"), ("two", "red"), ("three", "blue")] {
        secret(cluster.server(), "default", name, colour).await;
    }
    secret(cluster.server(), "kube-system", "four", "blue").await;
    let labelled = FactoryOptions::default()
        .labels_of::<Secret>("colour=blue".parse().unwrap())
        .namespace_of::<ConfigMap>("default")
        .indexers_of::<Secret>(Indexers::new().with("colour", colour));
    let mut manager = Manager::new(&cluster.client(), ManagerOptions::default().caches(labelled));
    manager.index_field("size", |secret: &Secret| [secret.name().len().to_string()]).unwrap();
    let again = manager.index_field("size", |secret: &Secret| [secret.name().len().to_string()]).map(drop);
    assert!(again.unwrap_err().to_string().contains("size"));
    let journal = Journal::default();
    let noted = journal.clone();
    config_maps(cluster.server()).create(&config_map("a")).await.unwrap();
    let maps = manager.controller::<ConfigMap>("maps").owns::<Secret>();
    let reconciled = maps.reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            let everywhere = context.api::<Secret>(AllNamespaces);
            let here = context.api::<Secret>(map.namespace());
            for (index, value) in [("colour", "blue"), ("colour", "red"), ("size", "5"), ("size", "4")] {
                let all = everywhere.by_index(index, value, Freshness::Cached).await?.len();
                let some = here.by_index(index, value, Freshness::AtLeastMyWrites).await?.len();
                journal.note(format!("{index} {value}: {all} {some}"));
            }
            journal.note(everywhere.by_index("shape", "round", Freshness::Cached).await.unwrap_err().to_string());
            Ok(Outcome::Done)
        }
    });
    manager.add(reconciled).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    let said = journal.take();
    assert_eq!(said[..4], ["colour blue: 3 2", "colour red: 1 1", "size 5: 1 1", "size 4: 1 0"]);
    assert!(said[4].contains("shape"), "{}", said[4]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_run_time_is_applied_mapped_and_reconciled() {
    let cluster = TestCluster::over(server().await);
    let client = cluster.client();
    let mapper = client.rest_mapper();
    let manifest = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: big, namespace: team}, spec: {size: 3}}
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: small}, spec: {size: 1}}
";
    for object in yaml::objects(manifest).unwrap() {
        let api = mapper.api_of(&object).await.unwrap();
        api.apply(&object, &ApplyOptions::new("test")).await.unwrap();
    }
    let unknown: DynamicObject = r#"{"apiVersion":"example.com/v2","kind":"Widget"}"#.parse().unwrap();
    let error = mapper.api_of(&unknown).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("Widget"), "{error}");

    let widgets = mapper.find("widget").await.unwrap();
    let mut manager = cluster.manager();
    let mapping = widgets.clone();
    let controller = manager.dynamic_controller("widgets", &widgets).reconciling(move |widget, context: Context| {
        let api = context.own(mapping.api(context.client(), widget.namespace()));
        async move {
            let mut widget = (*widget).clone();
            widget.set(&["spec", "seen"], true)?;
            api.update(&widget).await?;
            Ok(Outcome::Done)
        }
    });
    manager.add(controller).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    for (namespace, name) in [("team", "big"), ("default", "small")] {
        let widget = widgets.api(&client, namespace).get(name).await.unwrap();
        assert_eq!(widget.get(&["spec", "seen"]), Some(true.into()));
    }
    running.stop().await.unwrap();
}
