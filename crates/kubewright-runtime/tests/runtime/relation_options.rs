//! Options of relations in combination, the filter of all watches, priorities and fairness.

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::RunningServer;
use kubewright_cache::{Event, InformerScope, SharedInformerFactory};
use kubewright_client::Api;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::owner::new_owner_reference;
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::{Context, Controller, Outcome, Owns, Predicate, Watches};
use tokio::time::sleep;

use crate::support::{Journal, Running, config_map, config_maps, controller, key, noting, seconds, server};

/// Creates a secret in `namespace` with the labels of `labels`.
async fn create_secret(server: &RunningServer, namespace: &str, name: &str, labels: &[&str]) -> Secret {
    let mut secret = Secret::default();
    secret.set_name(name);
    secret.set_namespace(namespace);
    for label in labels {
        secret.metadata.labels.insert(*label, "yes".into());
    }
    Api::<Secret>::namespaced(&server.client(), namespace).create(&secret).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn metadata_selector_namespace_predicate_and_every_owner_combine() {
    let (server, journal) = (server().await, Journal::default());
    let owner = config_maps(&server).create(&config_map("owner")).await.unwrap();
    let is_ready = |secret: &PartialObjectMetadata| secret.labels().get("ready").is_some();
    let secrets = Owns::metadata::<Secret>()
        .labels("selected".parse().unwrap())
        .namespace("default")
        .when(Predicate::objects(is_ready))
        .when(Predicate::new(|event: &Event<PartialObjectMetadata>| event.key().name() != "ignored"))
        .every_owner()
        .optional();
    let running = noting(&journal, controller(&server).owns_with(secrets)).working().await;
    running.idle().await;
    journal.take();
    let relation = running.handle.health().relations.pop().unwrap();
    assert!(relation.is_optional && relation.name == "secrets");

    let owned = async |namespace: &str, name: &str, labels: &[&str]| {
        let mut secret = create_secret(&server, namespace, name, labels).await;
        secret.metadata.owner_references = [new_owner_reference(&owner.metadata, &owner.group_version_kind())].into();
        Api::<Secret>::namespaced(&server.client(), namespace).update(&secret).await.unwrap();
        running.idle().await;
        journal.take()
    };
    assert!(owned("default", "a", &["selected"]).await.is_empty(), "the predicate");
    assert!(owned("default", "b", &["ready"]).await.is_empty(), "the selector");
    assert!(owned("kube-system", "c", &["selected", "ready"]).await.is_empty(), "the namespace");
    assert!(owned("default", "ignored", &["selected", "ready"]).await.is_empty(), "the second predicate");
    assert_eq!(owned("default", "d", &["selected", "ready"]).await, ["owner 1: secrets default/d updated"]);
}

#[tokio::test(start_paused = true)]
async fn a_given_informer_takes_predicates_and_mappings_of_its_type() {
    let (server, journal) = (server().await, Journal::default());
    for name in ["a", "b"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let selected = factory.informer_with::<Secret>(InformerScope::default().labels("selected".parse().unwrap()));
    let of_name = |secret: &Secret| Some(key(secret.name())).filter(|_| secret.namespace() == "default");
    let built = controller(&server)
        .watches_with(Watches::informer("secrets", selected, of_name).when(Predicate::objects(|_: &Secret| true)));
    // The factory of the informer is not that of the controller.
    factory.start(&Default::default());
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();
    create_secret(&server, "default", "a", &[]).await;
    create_secret(&server, "default", "b", &["selected"]).await;
    running.idle().await;
    assert_eq!(journal.take(), ["b 1: secrets default/b added"]);
}

#[tokio::test(start_paused = true)]
async fn the_event_filter_filters_every_watch_but_no_deletion() {
    let (server, journal) = (server().await, Journal::default());
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let is_ours = |object: &PartialObjectMetadata| match object.name() {
        "odd" => panic!("no filter is made for this"),
        _ => object.labels().get("ours").is_some(),
    };
    // The filter applies to watches that are added before and after it.
    let built = Controller::<ConfigMap>::new("maps", &factory)
        .watches::<Secret>(|secret| vec![key(secret.name())])
        .with_event_filter(Predicate::new(|event: &Event<PartialObjectMetadata>| event.key().namespace() == "default"))
        .with_event_filter(Predicate::objects(is_ours))
        .watches_with(Watches::mapped(|secret: &Secret| [key(&format!("{}-twin", secret.name()))]))
        .every(seconds(3600.0));
    let noted = journal.clone();
    let running = Running::start(built.reconciling_keys(move |context: Context| {
        noted.note(format!("{}: {}", context.key(), context.reasons()));
        async { Ok(Outcome::Done) }
    }));
    let running = running.working().await;
    running.idle().await;
    journal.take();

    let mut ours = config_map("ours");
    ours.metadata.labels.insert("ours", "yes".into());
    for map in [&ours, &config_map("other"), &config_map("odd")] {
        config_maps(&server).create(map).await.unwrap();
    }
    running.idle().await;
    assert_eq!(
        journal.take(),
        ["default/ours: configmaps default/ours added", "default/odd: configmaps default/odd added"]
    );
    create_secret(&server, "default", "x", &[]).await;
    create_secret(&server, "default", "y", &["ours"]).await;
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    assert_eq!(told, ["default/y-twin: secrets default/y added", "default/y: secrets default/y added"]);
    config_maps(&server).delete("other").await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["default/other: configmaps default/other deleted"]);
    // A timer reconciles the objects that pass as listed ones.
    sleep(seconds(7300.0)).await;
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    told.dedup();
    assert_eq!(told, ["default/odd: timer requested", "default/ours: timer requested"]);
}

#[tokio::test(start_paused = true)]
async fn keys_have_the_priority_of_their_relation_and_of_the_start() {
    let server = server().await;
    for name in ["holder", "listed"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    create_secret(&server, "default", "old", &[]).await;
    let urgent = Watches::mapped(|secret: &Secret| [key(&format!("{}-urgent", secret.name()))]).priority(10);
    let idle = Watches::mapped(|secret: &Secret| [key(&format!("{}-idle", secret.name()))]).priority(-500);
    let built = controller(&server).watches_with(urgent).watches_with(idle).start_up_priority(-50);
    let running = Running::start(built.reconciling_keys(|context: Context| async move {
        // Occupies the only worker, so that other keys stay queued.
        if context.reasons().iter().any(|reason| reason.source == "hold") {
            sleep(seconds(500.0)).await;
        }
        Ok(Outcome::Done)
    }));
    running.handle.request(key("holder"), "hold");
    let running = running.working().await;
    sleep(seconds(1.0)).await;
    create_secret(&server, "default", "new", &[]).await;
    let mut live = config_map("live");
    live.set_namespace("default");
    config_maps(&server).create(&live).await.unwrap();
    sleep(seconds(1.0)).await;
    let mut waiting: Vec<(String, i32)> =
        running.handle.queue(100).waiting.iter().map(|one| (one.key.name().to_string(), one.priority)).collect();
    waiting.sort();
    let expected =
        [("listed", -50), ("live", 0), ("new-idle", -500), ("new-urgent", 10), ("old-idle", -500), ("old-urgent", -50)];
    assert_eq!(waiting, expected.map(|(name, priority)| (name.to_owned(), priority)));
}

#[tokio::test(start_paused = true)]
async fn a_group_with_many_keys_does_not_delay_another() {
    let (server, journal) = (server().await, Journal::default());
    let noted = journal.clone();
    let built = controller(&server).fair_by(|key: &ObjectKey| key.namespace().clone());
    let running = Running::start(built.reconciling_keys(move |context: Context| {
        noted.note(context.key().to_string());
        async { Ok(Outcome::Done) }
    }));
    for number in 0..10 {
        running.handle.request(ObjectKey::namespaced("many", format!("{number}")), "test");
    }
    running.handle.request(ObjectKey::namespaced("few", "only"), "test");
    let running = running.working().await;
    running.idle().await;
    let told = journal.take();
    let place = told.iter().position(|key| key == "few/only").unwrap();
    assert!(told.len() == 11 && place < 3, "{told:?}");
}
