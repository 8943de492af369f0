//! Caches of a part of a resource: other objects are read from the server, and not waited for.

use std::sync::Arc;

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_cache::{FactoryOptions, HealthState, Indexers, InformerScope, SharedInformerFactory};
use kubewright_client::Api;
use kubewright_core::{NamespaceScope, Object, Selector};
use kubewright_runtime::election::LeaderElectionOptions;
use kubewright_runtime::{BoxError, Context, Controller, Freshness, Outcome, Owns, Predicate, Sharding};
use tokio::time::{Instant, sleep};

use crate::support::{Journal, Running, config_map, config_maps, eventually, seconds, server, touch};

async fn secret(server: &RunningServer, name: &str, colour: &str) {
    let mut secret = Secret::default();
    secret.set_name(name);
    secret.metadata.labels.insert("colour", colour.into());
    Api::<Secret>::namespaced(&server.client(), "default").create(&secret).await.unwrap();
}

fn paint(secret: &mut Secret, colour: &str) -> Result<(), BoxError> {
    secret.metadata.labels.insert("colour", colour.into());
    Ok(())
}

fn colour(secret: Option<Arc<Secret>>) -> String {
    let labels = secret.map(|secret| secret.metadata.labels.clone()).unwrap_or_default();
    labels.get("colour").map(ToString::to_string).unwrap_or_default()
}

/// Paints each of these secrets in the colour of the map, and logs the operations.
async fn paint_all(map: &ConfigMap, context: &Context, names: &[&str], journal: &Journal) -> Result<(), BoxError> {
    let wanted = map.data.get("value").map(ToString::to_string).unwrap_or_default();
    let secrets = context.api::<Secret>("default");
    for name in names {
        let (_, done) = secrets.create_or_update(name, |secret| paint(secret, &wanted)).await?;
        let seen = colour(secrets.get(name, Freshness::AtLeastMyWrites).await?);
        journal.note(format!("{} {name} {wanted}: {done:?}, seen {seen}", context.attempt()));
    }
    Ok(())
}

/// Runs a painting controller, and returns its log for each colour in turn, checking the time.
async fn painted(server: &RunningServer, controller: Controller<ConfigMap>, names: &'static [&str]) -> Vec<String> {
    let journal = Journal::default();
    let mut map = config_map("a");
    map.data.insert("value", "red".into());
    config_maps(server).create(&map).await.unwrap();
    let noted = journal.clone();
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.name() == "a"));
    let running = Running::start(controller.reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            paint_all(&map, &context, names, &journal).await?;
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    for colour in ["green", "blue", "red"] {
        eventually("it is painted", async || journal.len() % names.len() == 0 && journal.len() > 0).await;
        let (before, start) = (journal.len(), Instant::now());
        touch(server, "a", colour).await;
        eventually("it is reconciled again", async || journal.len() >= before + names.len()).await;
        // A key that waits for an event that cannot come would wait for a bookmark, about a minute.
        assert!(start.elapsed() < seconds(5.0), "{colour}: {:?} {:?}", start.elapsed(), journal.take());
    }
    running.stopped().await.unwrap();
    journal.take()
}

const NAMES: [&str; 3] = ["inside", "new", "outside"];

fn expected() -> Vec<String> {
    let mut lines = Vec::new();
    for (number, colour) in ["red", "green", "blue", "red"].into_iter().enumerate() {
        for name in NAMES {
            let done = if number == 0 && name == "new" { "Created" } else { "Updated" };
            lines.push(format!("1 {name} {colour}: {done}, seen {colour}"));
        }
    }
    lines
}

/// Paints with a cache of secrets that `options` limit.
async fn painted_with(options: FactoryOptions) -> Vec<String> {
    let server = server().await;
    secret(&server, "inside", "blue").await;
    secret(&server, "outside", "yellow").await;
    let factory = SharedInformerFactory::new(&server.client(), options);
    painted(&server, Controller::new("maps", &factory).owns::<Secret>(), &NAMES).await
}

#[tokio::test(start_paused = true)]
async fn objects_outside_a_label_selector_are_updated_and_not_waited_for() {
    // Every colour except blue removes the secrets from the cache.
    let options = FactoryOptions::default().labels_of::<Secret>("colour=blue".parse().unwrap());
    assert_eq!(painted_with(options).await, expected());
}

#[tokio::test(start_paused = true)]
async fn the_complete_cache_of_a_kind_is_preferred() {
    let server = server().await;
    secret(&server, "inside", "blue").await;
    secret(&server, "outside", "yellow").await;
    let mut map = config_map("a");
    map.data.insert("value", "x".into());
    config_maps(&server).create(&map).await.unwrap();
    let factory = SharedInformerFactory::new(&server.client(), FactoryOptions::default());
    let part = factory.informer_with::<Secret>(InformerScope::default().labels("colour=blue".parse().unwrap()));
    let journal = Journal::default();
    let noted = journal.clone();
    let controller =
        Controller::<ConfigMap>::new("maps", &factory).owns_with(Owns::informer("secrets", part)).owns::<Secret>();
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.name() == "a"));
    let running = Running::start(controller.reconciling(move |_, context: Context| {
        let journal = noted.clone();
        async move {
            let found = context.api::<Secret>("default").get("outside", Freshness::Cached).await?;
            journal.note(colour(found));
            Ok(Outcome::Done)
        }
    }));
    // Only the cache can answer.
    server.faults().inject(Fault::answer(500).resource("secrets").verb("get"));
    let running = running.working().await;
    eventually("it is reconciled", async || journal.len() > 0).await;
    assert_eq!(journal.take()[0], "yellow");
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_outside_a_field_selector_are_updated_and_not_waited_for() {
    let options = FactoryOptions::default().fields_of::<Secret>("metadata.name=inside".parse().unwrap());
    assert_eq!(painted_with(options).await, expected());
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_shards_are_updated_and_not_waited_for() {
    let server = server().await;
    secret(&server, "inside", "blue").await;
    secret(&server, "outside", "yellow").await;
    let factory = SharedInformerFactory::new(&server.client(), FactoryOptions::default());
    // Never run, so all shards belong to other replicas.
    let options = LeaderElectionOptions::default();
    let sharding = Sharding::new(&server.client(), "default", "secrets", "me", 4, options).unwrap();
    let share = sharding.informer::<Secret>(&factory, InformerScope::default());
    let controller = Controller::new("maps", &factory).owns_with(Owns::informer("secrets", share));
    assert_eq!(painted(&server, controller, &NAMES).await, expected());
}

#[tokio::test(start_paused = true)]
async fn objects_cached_as_metadata_can_be_updated() {
    let server = server().await;
    secret(&server, "inside", "blue").await;
    secret(&server, "outside", "yellow").await;
    let options = FactoryOptions::default();
    let factory = SharedInformerFactory::new(&server.client(), options);
    let controller = Controller::new("maps", &factory).owns_with(Owns::metadata::<Secret>());
    assert_eq!(painted(&server, controller, &NAMES).await, expected());
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_namespace_are_updated_and_not_waited_for() {
    for namespaces in [&["kube-system"][..], &["kube-public", "kube-system"][..]] {
        let server = server().await;
        secret(&server, "inside", "blue").await;
        secret(&server, "outside", "yellow").await;
        let options = FactoryOptions::default().namespaces_of::<Secret>(namespaces.iter().copied());
        let factory = SharedInformerFactory::new(&server.client(), options);
        let controller = Controller::new("maps", &factory).owns::<Secret>();
        assert_eq!(painted(&server, controller, &NAMES).await, expected());
    }
}

#[tokio::test(start_paused = true)]
async fn queries_beyond_a_partial_cache_are_sent_to_the_server() {
    let server = server().await;
    for (name, colour) in [("one", "blue"), ("two", "red"), ("three", "blue")] {
        secret(&server, name, colour).await;
    }
    let mut map = config_map("a");
    map.data.insert("value", "x".into());
    config_maps(&server).create(&map).await.unwrap();
    let options = FactoryOptions::default()
        .labels_of::<Secret>("colour=blue".parse().unwrap())
        .namespaces(["default", "kube-system"])
        .indexers_of::<Secret>(Indexers::new().with("length", |secret: &Secret| [secret.name().len().to_string()]));
    let factory = SharedInformerFactory::new(&server.client(), options);
    // A manager with permissions in these namespaces alone may not list the whole cluster.
    server.faults().inject(Fault::answer(403).resource("secrets").namespace(""));
    let journal = Journal::default();
    let noted = journal.clone();
    let controller = Controller::<ConfigMap>::new("maps", &factory).owns::<Secret>();
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.name() == "a"));
    let running = Running::start(controller.reconciling(move |_, context: Context| {
        let journal = noted.clone();
        async move {
            for (namespace, scope) in [("default", "default".into()), ("all", NamespaceScope::All)] {
                let secrets = context.api::<Secret>(scope);
                for selector in ["", "colour=blue", "colour=red"] {
                    let selector: Selector = selector.parse()?;
                    let found = secrets.list(&selector, Freshness::AtLeastMyWrites).await?;
                    journal.note(format!("{namespace}: {selector} {}", found.len()));
                }
                let found = secrets.by_index("length", "3", Freshness::Cached).await?;
                journal.note(format!("{namespace}: length 3 {}", found.len()));
                assert!(secrets.by_index("width", "3", Freshness::Cached).await.is_err());
            }
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    eventually("it is reconciled", async || journal.len() == 8).await;
    let expected = [" 3", "colour=blue 2", "colour=red 1", "length 3 2"];
    let expected: Vec<String> =
        ["default", "all"].iter().flat_map(|namespace| expected.map(|line| format!("{namespace}: {line}"))).collect();
    assert_eq!(journal.take(), expected);
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_that_promises_freshness_does_not_trust_the_cache_of_an_absent_resource() {
    let server = server().await;
    secret(&server, "one", "blue").await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let factory = SharedInformerFactory::new(&server.client(), FactoryOptions::default());
    let journal = Journal::default();
    let noted = journal.clone();
    let controller = Controller::<ConfigMap>::new("maps", &factory).owns::<Secret>();
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.name() == "a"));
    let running = Running::start(controller.reconciling(move |_, context: Context| {
        let journal = noted.clone();
        async move {
            let secrets = context.api::<Secret>("default");
            journal.note(colour(secrets.get("one", Freshness::AtLeastMyWrites).await?));
            secrets.create_or_update("one", |secret| paint(secret, "green")).await?;
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    running.idle().await;
    assert_eq!(journal.take()[0], "blue");
    // As after the deletion of a CustomResourceDefinition, or during an outage of an aggregated
    // server.
    server.faults().inject(Fault::answer(404).resource("secrets").verb("watch"));
    server.faults().inject(Fault::answer(404).resource("secrets").verb("list"));
    server.faults().cut_watches();
    eventually("it is absent", async || {
        let health = running.handle.health();
        health.relations[1].watch.as_ref().is_some_and(|watch| watch.state == HealthState::Absent)
    })
    .await;
    let secrets = Api::<Secret>::namespaced(&server.client(), "default");
    let mut one = secrets.get("one").await.unwrap();
    paint(&mut one, "red").unwrap();
    secrets.update(&one).await.unwrap();
    for expected in ["red", "green"] {
        let start = Instant::now();
        journal.take();
        touch(&server, "a", expected).await;
        eventually("it is reconciled", async || journal.len() > 0).await;
        assert_eq!(journal.take()[0], expected);
        assert!(start.elapsed() < seconds(5.0), "{:?}", start.elapsed());
        sleep(seconds(1.0)).await;
    }
    running.stopped().await.unwrap();
}
