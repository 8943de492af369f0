//! Controllers of requests that are not objects.

use std::num::ParseIntError;

use futures_util::stream;
use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_client::Api;
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::{Context, Controller, Manager, ManagerOptions, Outcome, Predicate, Requests, Watches};
use tokio::time::sleep;

use crate::support::{Journal, Running, config_map, config_maps, seconds, server};

/// A slot of a table, such as `left 3`.
#[derive(Debug)]
struct Slot {
    side: &'static str,
    number: u32,
}

impl From<Slot> for ObjectKey {
    fn from(slot: Slot) -> Self {
        ObjectKey::namespaced(slot.side, slot.number.to_string())
    }
}

impl TryFrom<ObjectKey> for Slot {
    type Error = ParseIntError;

    fn try_from(key: ObjectKey) -> Result<Self, ParseIntError> {
        let side = if key.namespace() == "left" { "left" } else { "right" };
        Ok(Slot { side, number: key.name().parse()? })
    }
}

fn slot_of(object: &impl Object, side: &'static str) -> Option<Slot> {
    Some(Slot { side, number: object.name().strip_prefix("slot-")?.parse().ok()? })
}

#[tokio::test(start_paused = true)]
async fn watches_and_streams_lead_to_requests() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("slot-1")).await.unwrap();
    let factory = kubewright_cache::SharedInformerFactory::new(&server.client(), Default::default());
    let controller: Controller<Requests<Slot>> = Controller::requests("slots", &factory);
    let built = controller
        .watches::<ConfigMap>(|map| slot_of(map, "left").into_iter().collect())
        .watches_with(Watches::mapped(|secret: &Secret| slot_of(secret, "right")).when(Predicate::labels_changed()))
        .reconcile_on("start", stream::iter([Slot { side: "left", number: 1 }, Slot { side: "right", number: 7 }]))
        .every(seconds(1000.0))
        .reconciling_with(journal.clone(), |slot, context, journal| async move {
            journal.note(format!("{} {}: {}", slot.side, slot.number, context.reasons()));
            Ok(Outcome::Done)
        });
    let running = Running::start(built).working().await;
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    // Equal requests are one.
    assert_eq!(told, ["left 1: configmaps default/slot-1 listed, start requested", "right 7: start requested"]);
    let mut secret = Secret::default();
    secret.set_name("slot-2");
    Api::<Secret>::namespaced(&server.client(), "default").create(&secret).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["right 2: secrets default/slot-2 added"]);
    // All requests are those of all cached objects.
    sleep(seconds(2000.0)).await;
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    told.dedup();
    assert_eq!(told, ["left 1: timer requested", "right 2: timer requested"]);
    // No relation is the main one, and a key that is no request is not retried.
    running.handle.request(ObjectKey::namespaced("left", "one"), "test");
    running.handle.request(Slot { side: "right", number: 3 }, "test");
    running.idle().await;
    assert_eq!(journal.take(), ["right 3: test requested"]);
    let health = running.handle.health();
    assert!(health.relations.len() == 2 && health.relations.iter().all(|relation| !relation.is_main));
    assert_eq!(health.given_up[0].reason, "invalid digit found in string");
}

#[tokio::test(start_paused = true)]
async fn a_manager_runs_controllers_of_requests_without_a_watch() {
    let (server, journal) = (server().await, Journal::default());
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let built = manager
        .request_controller::<Slot>("slots")
        .reconcile_on("start", stream::iter([Slot { side: "left", number: 1 }]))
        .reconciling_with(journal.clone(), |slot: Slot, _: Context, journal| async move {
            journal.note(format!("{slot:?}"));
            Ok(if journal.len() < 3 { Outcome::requeue_after(seconds(5.0)) } else { Outcome::Done })
        });
    manager.add(built).unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    sleep(seconds(60.0)).await;
    assert_eq!(journal.take(), [r#"Slot { side: "left", number: 1 }"#; 3]);
    stop.cancel();
    running.await.unwrap().unwrap();
}
