//! Common tasks of reconcilers: finalizers, create-or-update, ownership.

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::RunningServer;
use kubewright_client::Api;
use kubewright_core::options::Patch;
use kubewright_core::{Object, json};
use kubewright_runtime::controller::RunnableController;
use kubewright_runtime::ownership::{controller_reference, is_controlled_by, set_controller_reference};
use kubewright_runtime::{Context, Finalizing, Outcome, finalize};

use crate::support::{Journal, Running, config_map, config_maps, controller, eventually, server, touch};

#[tokio::test(start_paused = true)]
async fn a_finalizer_blocks_deletion_until_cleanup_succeeds() {
    let server = server().await;
    let maps = config_maps(&server);
    maps.create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            let api = context.api::<ConfigMap>("default");
            finalize(&api, "example.com/cleanup", map, |what| async move {
                match what {
                    Finalizing::Apply(map) => journal.note(format!("apply with {}", map.finalizers().len())),
                    Finalizing::Cleanup(_) if context.attempt() < 3 => {
                        journal.note("cleanup fails");
                        return Err("not yet".into());
                    }
                    Finalizing::Cleanup(_) => journal.note("cleanup"),
                }
                Ok(Outcome::Done)
            })
            .await
        }
    }));
    let running = running.working().await;
    running.idle().await;
    // Once with the finalizer just added, and once because of that change.
    assert_eq!(journal.take(), ["apply with 1", "apply with 1"]);
    maps.delete("a").await.unwrap();
    assert!(maps.get("a").await.unwrap().is_being_deleted());
    eventually("it is gone", async || maps.get_opt("a").await.unwrap().is_none()).await;
    assert_eq!(journal.take(), ["cleanup fails", "cleanup fails", "cleanup"]);
}

// The object changes after each step, but its finalizer is removed and those of others stay.
#[tokio::test(start_paused = true)]
async fn cleaning_up_may_write_to_the_object() {
    let server = server().await;
    let maps = config_maps(&server);
    maps.create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            let api = context.api::<ConfigMap>("default");
            finalize(&api, "example.com/cleanup", map, |what| async move {
                if let Finalizing::Cleanup(map) = what {
                    journal.note("cleanup");
                    let others = Api::<ConfigMap>::namespaced(context.client(), "default");
                    let mut written = others.get(map.name()).await?;
                    written.data.insert("cleaned", format!("{:?}", std::time::Instant::now()).into());
                    others.update(&written).await?;
                }
                Ok(Outcome::Done)
            })
            .await
        }
    }));
    let running = running.working().await;
    running.idle().await;
    let mut map = maps.get("a").await.unwrap();
    map.metadata.finalizers.insert(0, "example.com/other".into());
    maps.update(&map).await.unwrap();
    maps.delete("a").await.unwrap();
    eventually("ours is gone", async || *maps.get("a").await.unwrap().finalizers() == ["example.com/other"]).await;
    running.idle().await;
    assert_eq!(journal.take(), ["cleanup"]);
}

#[tokio::test(start_paused = true)]
async fn create_or_update_creates_then_updates_then_does_nothing() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).owns::<Secret>().reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            let secrets = context.api::<Secret>("default");
            let value = map.data.get("value").cloned().unwrap_or_default();
            let set = |secret: &mut Secret| {
                set_controller_reference(&*map, secret)?;
                secret.metadata.labels.insert("value", value.clone());
                Ok(())
            };
            let (secret, first) = secrets.create_or_update(map.name(), set).await?;
            let (_, second) = secrets
                .create_or_patch(map.name(), |secret| {
                    secret.metadata.annotations.insert("seen", value.clone());
                    Ok(())
                })
                .await?;
            journal.note(format!("{value} {first:?} {second:?} {}", is_controlled_by(&secret, &*map)));
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    running.idle().await;
    assert_eq!(journal.take(), [" Created Updated true", " Unchanged Unchanged true"]);
    touch(&server, "a", 1).await;
    running.idle().await;
    assert_eq!(journal.take(), ["1 Updated Updated true", "1 Unchanged Unchanged true"]);
    let secret = Api::<Secret>::namespaced(&server.client(), "default").get("a").await.unwrap();
    assert_eq!((secret.labels().get("value"), secret.annotations().get("seen")), (Some("1"), Some("1")));
}

/// A controller that maintains a secret for each config map, as in the README: `delete` means that
/// it is no longer wanted.
fn copies(server: &RunningServer) -> RunnableController {
    controller(server).owns::<Secret>().reconciling(|map, context: Context| async move {
        let secrets = context.api::<Secret>("default");
        if map.data.contains_key("delete") {
            secrets.delete_controlled_by(&*map, map.name()).await?;
            return Ok(Outcome::Done);
        }
        secrets
            .create_or_update(map.name(), |secret| {
                set_controller_reference(&*map, secret)?;
                secret.metadata.labels.insert("copied", "yes".into());
                Ok(())
            })
            .await?;
        Ok(Outcome::Done)
    })
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_of_the_same_name_stays_untouched_and_is_reported() {
    let server = server().await;
    let secrets = Api::<Secret>::namespaced(&server.client(), "default");
    let maps = config_maps(&server);
    let other = maps.create(&config_map("other")).await.unwrap();
    let (mut orphan, mut foreign) = (Secret::default(), Secret::default());
    orphan.set_name("a");
    foreign.set_name("b");
    foreign.set_owner_references(vec![controller_reference(&other)]);
    let before = [secrets.create(&orphan).await.unwrap(), secrets.create(&foreign).await.unwrap()];
    maps.create(&config_map("a")).await.unwrap();
    maps.create(&config_map("b")).await.unwrap();
    let controller = copies(&server);
    let handle = controller.handle();
    let running = Running::start(controller).working().await;
    eventually("both are reported", async || handle.health().failing.len() == 2).await;
    let mut errors: Vec<_> = handle.health().failing.iter().map(|failing| failing.error.to_string()).collect();
    errors.sort();
    assert!(errors[0].contains("object default/a exists and has no controller"), "{errors:?}");
    assert!(
        errors[1].contains("object default/b is already owned by another ConfigMap controller other"),
        "{errors:?}"
    );

    for name in ["a", "b"] {
        maps.patch(name, Patch::merge(json!({"data": {"delete": "yes"}}))).await.unwrap();
    }
    running.idle().await;
    assert_eq!(handle.health().failing.len(), 0);
    assert_eq!([secrets.get("a").await.unwrap(), secrets.get("b").await.unwrap()], before);
}

#[tokio::test(start_paused = true)]
async fn a_controlled_object_is_deleted() {
    let server = server().await;
    let secrets = Api::<Secret>::namespaced(&server.client(), "default");
    let maps = config_maps(&server);
    maps.create(&config_map("a")).await.unwrap();
    let running = Running::start(copies(&server)).working().await;
    eventually("it is made", async || secrets.get_opt("a").await.unwrap().is_some()).await;
    maps.patch("a", Patch::merge(json!({"data": {"delete": "yes"}}))).await.unwrap();
    running.idle().await;
    assert!(secrets.get_opt("a").await.unwrap().is_none());
}
