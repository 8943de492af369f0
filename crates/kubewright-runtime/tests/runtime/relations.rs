//! Triggers of a reconcile besides the object itself: owned and related objects, other kinds,
//! channels and timers.

use std::sync::Arc;

use kubewright_api::core::v1::{ConfigMap, Endpoints, Secret, ServiceAccount};
use kubewright_cache::{InformerScope, SharedInformerFactory};
use kubewright_client::{Api, Scope};
use kubewright_core::owner::{new_controller_ref, new_owner_reference};
use kubewright_core::{DynamicObject, GroupKind, GroupVersionKind, GroupVersionResource, Object};
use kubewright_runtime::ownership::controller_reference;
use kubewright_runtime::{Context, Controller, Freshness, Manager, ManagerOptions, Outcome, Owns, Predicate, Watches};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::support::{Journal, Running, config_map, config_maps, controller, key, noting, seconds, server};

#[tokio::test(start_paused = true)]
async fn no_change_is_lost_to_a_predicate_or_a_mapping_that_panics() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let picky = Predicate::<Secret>::new(|event| match event.key().name().as_str() {
        "odd" => panic!("no predicate is made for this"),
        name => name != "dull",
    });
    let map = |secret: &Secret| match secret.name() {
        "broken" => panic!("no mapping is made for this"),
        _ => vec![key("a")],
    };
    let running = noting(&journal, controller(&server).watches_with(Watches::mapped(map).when(picky))).working().await;
    running.idle().await;
    journal.take();
    for (name, seen) in [("dull", 0), ("odd", 1), ("broken", 1)] {
        let mut secret = Secret::default();
        secret.set_name(name);
        Api::<Secret>::namespaced(&server.client(), "default").create(&secret).await.unwrap();
        running.idle().await;
        let told = journal.take();
        let of_a: Vec<&String> = told.iter().filter(|line| line.starts_with("a ")).collect();
        assert_eq!(of_a.len(), seen, "{name}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_an_owned_object_is_one_of_its_controller() {
    let server = server().await;
    let client = server.client();
    let owner = config_maps(&server).create(&config_map("owner")).await.unwrap();
    config_maps(&server).create(&config_map("other")).await.unwrap();
    let journal = Journal::default();
    let built = controller(&server).owns::<Secret>().owns_with(Owns::metadata::<ServiceAccount>());
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();

    let secrets = Api::<Secret>::namespaced(&client, "default");
    let mut secret = Secret::default();
    secret.set_name("owned");
    secret.set_namespace("default");
    secret.metadata.owner_references = [new_controller_ref(&owner.metadata, &owner.group_version_kind())].into();
    let mut secret = secrets.create(&secret).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["owner 1: secrets default/owned added"]);

    // On a change of the owner, both owners are reconciled; an owner that is not the controller is
    // not.
    let other = config_maps(&server).get("other").await.unwrap();
    secret.metadata.owner_references = [
        new_controller_ref(&other.metadata, &owner.group_version_kind()),
        new_owner_reference(&owner.metadata, &owner.group_version_kind()),
    ]
    .into();
    secrets.update(&secret).await.unwrap();
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    assert_eq!(told, ["other 1: secrets default/owned updated", "owner 1: secrets default/owned updated"]);
    secrets.delete("owned").await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["other 1: secrets default/owned deleted"]);

    let mut account = ServiceAccount::default();
    account.set_name("robot");
    account.set_namespace("default");
    account.metadata.owner_references = [new_controller_ref(&owner.metadata, &owner.group_version_kind())].into();
    Api::<ServiceAccount>::namespaced(&client, "default").create(&account).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["owner 1: serviceaccounts default/robot added"]);
}

#[tokio::test(start_paused = true)]
async fn relations_take_only_the_events_that_pass() {
    let server = server().await;
    let client = server.client();
    let owner = config_maps(&server).create(&config_map("owner")).await.unwrap();
    let matters = || Predicate::objects(|secret: &Secret| secret.metadata.labels.contains_key("matters"));
    let journal = Journal::default();
    let built = controller(&server)
        .owns_with(Owns::new().when(matters()))
        .watches_with(Watches::mapped(|secret: &Secret| [key(secret.name())]).when(matters()))
        .owns_with(Owns::<Endpoints>::new().every_owner())
        .watches_with(Watches::metadata::<ServiceAccount>(|account| vec![key(account.name())]));
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();

    let secrets = Api::<Secret>::namespaced(&client, "default");
    let mut secret = Secret::default();
    secret.set_name("owner");
    secret.metadata.owner_references = [new_controller_ref(&owner.metadata, &owner.group_version_kind())].into();
    let mut secret = secrets.create(&secret).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), Vec::<String>::new());
    secret.metadata.labels.insert("matters", "".into());
    secrets.update(&secret).await.unwrap();
    running.idle().await;
    // Both relations contribute reasons to one reconcile.
    assert_eq!(journal.take(), ["owner 1: secrets default/owner updated"]);
    // Deletions are never filtered.
    secrets.delete("owner").await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["owner 1: secrets default/owner deleted"]);

    // An owner that is not the controller is reconciled too.
    let mut endpoints = Endpoints::default();
    endpoints.set_name("shared");
    endpoints.metadata.owner_references = [new_owner_reference(&owner.metadata, &owner.group_version_kind())].into();
    Api::<Endpoints>::namespaced(&client, "default").create(&endpoints).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["owner 1: endpoints default/shared added"]);

    let mut account = ServiceAccount::default();
    account.set_name("owner");
    Api::<ServiceAccount>::namespaced(&client, "default").create(&account).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["owner 1: serviceaccounts default/owner added"]);
}

#[tokio::test(start_paused = true)]
async fn other_kinds_channels_and_timers_cause_reconciles() {
    let server = server().await;
    for name in ["a", "b"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let (sender, receiver) = mpsc::channel(16);
    let journal = Journal::default();
    let built = controller(&server)
        .watches::<Secret>(|secret| vec![key(secret.name())])
        .channel("bell", receiver)
        .every(seconds(3600.0));
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();
    let mut secret = Secret::default();
    secret.set_name("b");
    Api::<Secret>::namespaced(&server.client(), "default").create(&secret).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["b 1: secrets default/b added"]);
    sender.send(key("a")).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["a 1: bell requested"]);
    sleep(seconds(3600.0)).await;
    let told = journal.take();
    for name in ["a", "b"] {
        assert!(told.contains(&format!("{name} 1: timer requested")), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_reconciles_only_objects_that_pass_the_filter() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let mut other = config_map("other");
    other.set_namespace("kube-system");
    Api::<ConfigMap>::namespaced(&server.client(), "kube-system").create(&other).await.unwrap();
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    // The filter applies regardless of the order of the builder calls.
    let controller = Controller::new("maps", &factory).every(seconds(60.0));
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.namespace() == "default"));
    let journal = Journal::default();
    let running = noting(&journal, controller).working().await;
    running.idle().await;
    journal.take();
    sleep(seconds(180.0)).await;
    running.idle().await;
    let told = journal.take();
    assert!((2..=4).contains(&told.len()) && told.iter().all(|line| line == "a 1: timer requested"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timer_spreads_its_keys_over_the_period_at_low_priority() {
    let (server, journal) = (server().await, Journal::default());
    for number in 0..50 {
        config_maps(&server).create(&config_map(&format!("map-{number:02}"))).await.unwrap();
    }
    let noted = journal.clone();
    let running =
        Running::start(controller(&server).every(seconds(1000.0)).reconciling(move |map, context: Context| {
            let journal = noted.clone();
            async move {
                if context.reasons().iter().any(|reason| reason.source == "timer") {
                    journal.note(map.name());
                }
                // Occupies the only worker, so that other keys stay queued.
                if context.reasons().iter().any(|reason| reason.source == "hold") {
                    sleep(seconds(500.0)).await;
                }
                Ok(Outcome::Done)
            }
        }));
    let running = running.working().await;
    let mut counts = Vec::new();
    for _ in 0..20 {
        sleep(seconds(50.0)).await;
        counts.push(journal.len());
    }
    let mut names = journal.take();
    // Each key has a slice of 20 s, so 2 or 3 are added in 50 s, give or take one at the ends.
    let steps: Vec<usize> =
        counts.iter().zip(std::iter::once(&0).chain(&counts)).map(|(now, before)| now - before).collect();
    assert!(steps.iter().all(|step| (1..=4).contains(step)), "{steps:?}");
    names.sort();
    names.dedup();
    assert!(names.len() >= 49, "{names:?}");
    running.handle.request(key("map-00"), "hold");
    sleep(seconds(400.0)).await;
    let waiting = running.handle.queue(100).waiting;
    assert!(waiting.len() >= 18 && waiting.iter().all(|one| one.priority == kubewright_workqueue::LOW_PRIORITY));
}

#[tokio::test(start_paused = true)]
async fn a_period_of_zero_is_an_error() {
    let server = server().await;
    let built =
        || controller(&server).every(seconds(5.0)).every(seconds(0.0)).reconciling(|_, _| async { Ok(Outcome::Done) });
    let error = built().run(&Default::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "controller maps: the period of a periodic reconcile is zero");
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    assert!(manager.add(built()).is_err() && manager.handles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_of_two_kinds_are_read_each_from_its_own_cache() {
    let server = server().await;
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let (maps, secrets) =
        (GroupVersionResource::new("", "v1", "configmaps"), GroupVersionResource::new("", "v1", "secrets"));
    let informer = factory.dynamic(maps, InformerScope::default().namespace("default"));
    let kind = GroupKind::new("", "ConfigMap");
    let controller = Controller::dynamic("maps", &factory, informer, kind, "configmaps".into(), true).owns_with(
        Owns::informer("secrets", factory.dynamic(secrets.clone(), InformerScope::default().namespace("default"))),
    );
    let journal = Journal::default();
    let running = Running::start(controller.reconciling({
        let journal = journal.clone();
        move |map: Arc<DynamicObject>, context: Context| {
            let (journal, secrets) = (journal.clone(), secrets.clone());
            async move {
                let api = context.own(Api::<DynamicObject>::new(
                    context.client(),
                    secrets,
                    Scope::Namespace("default".into()),
                ));
                let found = api.get(map.name(), Freshness::Cached).await?;
                journal.note(found.as_ref().map_or("nothing", |found| &found.kind));
                if found.is_none() {
                    let mut secret = DynamicObject::new(&GroupVersionKind::new("", "v1", "Secret"), map.name());
                    secret.set_namespace("default");
                    secret.metadata.owner_references = [controller_reference(&*map)].into();
                    api.create(&secret).await?;
                }
                Ok(Outcome::Done)
            }
        }
    }));
    let running = running.working().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["nothing", "Secret"], "its own write wakes it, and is what it finds");
}
