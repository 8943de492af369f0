//! Two clusters, each an embedded server with the manifest of its side.

use std::time::Duration;

use kubewright::api::core::v1::{ConfigMap, Event, Secret};
use kubewright::options::ListOptions;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, ByteString, Object};

use super::{ENABLED, ORIGIN, manager};
use crate::support::{Audit, cluster, operator};

const SOURCE: &str = include_str!("source.yaml");
const TARGET: &str = include_str!("target.yaml");

struct Fixture {
    source: TestCluster,
    target: TestCluster,
    audits: [Audit; 2],
    running: RunningManager,
}

impl Fixture {
    async fn start() -> Self {
        let (source, target) = (cluster(&[SOURCE]).await, cluster(&[TARGET]).await);
        let (running, audits) = run(&source, &target);
        Fixture { source, target, audits, running }
    }

    fn sources(&self) -> Api<ConfigMap> {
        self.source.client().api("default")
    }

    fn copies(&self) -> Api<ConfigMap> {
        self.target.client().api("default")
    }
}

fn run(source: &TestCluster, target: &TestCluster) -> (RunningManager, [Audit; 2]) {
    let (source_client, in_source) = operator(source, "mirror");
    let (target_client, in_target) = operator(target, "mirror");
    let manager = manager(&source_client, &target_client, "production").expect("valid options");
    (source.run(manager), [in_source, in_target])
}

fn config(name: &str, colour: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map.metadata.labels.insert(ENABLED, "true".into());
    map.data.insert("colour", colour.into());
    map
}

fn has_colour(colour: &str) -> impl Fn(&ConfigMap) -> bool {
    move |map| map.data.get("colour").is_some_and(|found| *found == *colour)
}

#[tokio::test(start_paused = true)]
async fn a_copy_follows_its_source_and_is_repaired() {
    let world = Fixture::start().await;
    let mut source = world.sources().create(&config("app", "red")).await.expect("it is valid");
    let copy: ConfigMap = world.target.eventually("default", "app", has_colour("red")).await;
    assert_eq!(copy.labels().get(ORIGIN), Some("production"));
    // Otherwise a mirror in the other direction would mirror it back.
    assert_eq!(copy.labels().get(ENABLED), None);

    source.data.insert("colour", "green".into());
    source = world.sources().update(&source).await.expect("nobody else writes it");
    let mut copy = world.target.eventually("default", "app", has_colour("green")).await;

    copy.data.insert("colour", "changed by somebody".into());
    world.copies().update(&copy).await.expect("it is valid");
    world.target.eventually("default", "app", has_colour("green")).await;
    world.copies().delete("app").await.expect("it is there");
    world.target.eventually("default", "app", has_colour("green")).await;

    // A source that is no longer labelled is no longer mirrored.
    source.metadata.labels.remove(ENABLED);
    world.sources().update(&source).await.expect("nobody else writes it");
    world.target.eventually_gone::<ConfigMap>("default", "app").await;
    assert!(world.sources().get("app").await.is_ok());
    world.running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_replaced_secret_is_replaced() {
    let world = Fixture::start().await;
    let secrets = Api::<Secret>::namespaced(&world.source.client(), "default");
    let mut secret = Secret { type_: Some("example.com/one".into()), ..Default::default() };
    secret.set_name("token");
    secret.metadata.labels.insert(ENABLED, "true".into());
    secret.data.insert("token", ByteString::from(b"s3cret".to_vec()));
    secrets.create(&secret).await.expect("it is valid");
    let is_copied = |kind: &'static str| move |copy: &Secret| copy.type_.as_deref() == Some(kind);
    let copy: Secret = world.target.eventually("default", "token", is_copied("example.com/one")).await;
    assert_eq!(copy.data, secret.data);

    // The type of a secret cannot be updated.
    secrets.delete("token").await.expect("it is there");
    secret.type_ = Some("example.com/two".into());
    secrets.create(&secret).await.expect("it is valid");
    world.target.eventually("default", "token", is_copied("example.com/two")).await;
    world.running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_never_changed() {
    let world = Fixture::start().await;
    let mut foreign = config("app", "blue");
    foreign.metadata.labels.remove(ENABLED);
    let foreign = world.copies().create(&foreign).await.expect("it is valid");
    let source = world.sources().create(&config("app", "red")).await.expect("it is valid");
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.copies().get("app").await.expect("it is there"), foreign);
    let events = Api::<Event>::namespaced(&world.source.client(), "default");
    let events = events.list(&ListOptions::default()).await.expect("it answers");
    let event = events.items.iter().find(|event| event.reason.as_deref() == Some("NotMirrored")).expect("an event");
    assert_eq!(event.involved_object.uid.as_deref(), Some(source.uid()));

    // Nor does the end of the source delete it.
    world.sources().delete("app").await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.copies().get("app").await.expect("it is there"), foreign);
    world.running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn a_source_deleted_while_the_operator_was_down_loses_its_copy() {
    let world = Fixture::start().await;
    world.sources().create(&config("app", "red")).await.expect("it is valid");
    world.target.eventually("default", "app", has_colour("red")).await;
    let Fixture { source, target, running, .. } = world;
    running.stop().await.expect("it stops in order");
    Api::<ConfigMap>::namespaced(&source.client(), "default").delete("app").await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(target.client().api::<ConfigMap>("default").get("app").await.is_ok());
    let (running, _) = run(&source, &target);
    target.eventually_gone::<ConfigMap>("default", "app").await;
    running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn the_manifests_grant_what_is_used_and_no_more() {
    let world = Fixture::start().await;
    for name in ["app", "taken"] {
        let mut foreign = config(name, "blue");
        foreign.metadata.labels.clear();
        if name == "taken" {
            world.copies().create(&foreign).await.expect("it is valid");
        }
        world.sources().create(&config(name, "red")).await.expect("it is valid");
    }
    let secrets = Api::<Secret>::namespaced(&world.source.client(), "default");
    let mut secret = Secret::default();
    secret.set_name("token");
    secret.metadata.labels.insert(ENABLED, "true".into());
    let mut secret = secrets.create(&secret).await.expect("it is valid");
    world.target.eventually("default", "token", |_: &Secret| true).await;
    secret.data.insert("token", ByteString::from(b"s3cret".to_vec()));
    secrets.update(&secret).await.expect("nobody else writes it");
    world.target.eventually("default", "token", |copy: &Secret| !copy.data.is_empty()).await;
    world.target.eventually("default", "app", has_colour("red")).await;
    let mut source = config("app", "green");
    source.metadata.resource_version = world.sources().get("app").await.expect("it is there").metadata.resource_version;
    world.sources().update(&source).await.expect("nobody else writes it");
    world.target.eventually("default", "app", has_colour("green")).await;
    world.sources().delete("app").await.expect("it is there");
    secrets.delete("token").await.expect("it is there");
    world.target.eventually_gone::<ConfigMap>("default", "app").await;
    world.target.eventually_gone::<Secret>("default", "token").await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    world.running.stop().await.expect("it stops in order");
    world.audits[0].assert_exact(SOURCE);
    world.audits[1].assert_exact(TARGET);
}
