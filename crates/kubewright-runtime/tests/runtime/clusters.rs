//! One controller over two clusters: reads and writes use the caches of their own cluster.

use std::sync::Arc;

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_core::Object;
use kubewright_runtime::{BoxError, Context, Freshness, Manager, Outcome, Predicate, Watches};
use tokio_util::sync::CancellationToken;

use crate::support::{Journal, config_map, config_maps, eventually, server};

async fn create(server: &RunningServer, value: &str) {
    let mut map = config_map("a");
    map.data.insert("value", value.into());
    config_maps(server).create(&map).await.unwrap();
}

fn value(map: Option<&ConfigMap>) -> String {
    map.and_then(|map| map.data.get("value")).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn each_cluster_has_its_own_cache() {
    let (source, target) = (server().await, server().await);
    create(&source, "source").await;
    create(&target, "target").await;
    // So reads come from the caches.
    for server in [&source, &target] {
        server.faults().inject(Fault::answer(500).resource("configmaps").verb("get"));
    }
    let mut manager = Manager::new(&source.client(), Default::default());
    let client = target.client();
    let copies = manager.add_cluster(&client, Default::default()).informer::<ConfigMap>();
    let journal = Journal::default();
    let controller = manager
        .controller::<ConfigMap>("copies")
        .filter(Predicate::objects(|map: &ConfigMap| map.name() == "a"))
        .watches_with(Watches::informer("configmaps", copies, |map| (map.name() == "a").then(|| map.key())))
        .reconciling_with((client, journal.clone()), |map: Arc<ConfigMap>, context: Context, state| async move {
            let (client, journal) = &*state;
            let copies = context.own(client.api::<ConfigMap>("default"));
            let before = copies.get("a", Freshness::AtLeastMyWrites).await?;
            copies
                .create_or_update("a", |copy| {
                    copy.data = map.data.clone();
                    Ok::<(), BoxError>(())
                })
                .await?;
            let after = copies.get("a", Freshness::AtLeastMyWrites).await?;
            let here = context.api::<ConfigMap>("default").get("a", Freshness::Cached).await?;
            let values = [here, before, after].map(|map| value(map.as_deref()));
            journal.note(values.join(" "));
            Ok(Outcome::Done)
        });
    manager.add(controller).unwrap();
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    eventually("the copy is written", async || journal.len() > 1).await;
    assert_eq!(journal.take(), ["source target source", "source source source"]);

    // A change in the other cluster leads to a reconcile, too.
    target.faults().clear();
    crate::support::touch(&target, "a", "changed").await;
    eventually("the copy is repaired", async || journal.len() > 1).await;
    assert_eq!(journal.take(), ["source changed source", "source source source"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_named_by_its_type_only_if_there_is_one() {
    let (source, target) = (server().await, server().await);
    create(&source, "source").await;
    create(&target, "target").await;
    for is_ambiguous in [false, true] {
        let mut manager = Manager::new(&source.client(), Default::default());
        let copies = manager.add_cluster(&target.client(), Default::default()).informer::<ConfigMap>();
        let journal = Journal::default();
        // A second relation of the same informer adds no cache.
        let mut controller = manager.controller::<ConfigMap>("copies").watches::<ConfigMap>(|map| vec![map.key()]);
        if is_ambiguous {
            controller = controller.watches_with(Watches::informer("configmaps", copies, |map| [map.key()]));
        }
        let controller = controller.reconciling_with(journal.clone(), |map, context: Context, journal| async move {
            if map.name() == "a" {
                let cached =
                    context.cached::<ConfigMap>().map(|maps| value(maps.namespace("default").get("a").as_deref()));
                journal.note(cached.unwrap_or_else(|error| error.to_string()));
                journal.note(context.cached::<Secret>().expect_err("not watched").to_string());
            }
            Ok(Outcome::Done)
        });
        manager.add(controller).unwrap();
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let running = tokio::spawn(async move { manager.run(&shutdown).await });
        eventually("it is reconciled", async || journal.len() > 1).await;
        let config_map = "kubewright_api::generated::core::v1::ConfigMap";
        let of_maps =
            if is_ambiguous { format!("the controller has several caches of {config_map}") } else { "source".into() };
        let secret = "the controller does not watch kubewright_api::generated::core::v1::Secret";
        assert_eq!(journal.take()[..2], [of_maps, secret.to_owned()]);
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}
