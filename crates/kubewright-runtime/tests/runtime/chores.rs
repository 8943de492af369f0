//! What reconcilers do most: clean up, create or update, own.

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_runtime::ownership::{controller_reference, is_controlled_by};
use kubewright_runtime::{Context, Finalizing, Outcome, finalize};

use crate::support::{Journal, Running, config_map, config_maps, controller, eventually, server, touch};

#[tokio::test(start_paused = true)]
async fn an_object_goes_only_after_it_is_cleaned_up() {
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

// The object is another after each of them, and its finalizer goes nevertheless, with those of others left where they are.
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
async fn an_object_is_created_then_updated_then_left_alone() {
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
                secret.metadata.owner_references = [controller_reference(&*map)].into();
                secret.metadata.labels.insert("value", value.clone());
            };
            let (secret, first) = secrets.create_or_update(map.name(), set).await?;
            let (_, second) = secrets
                .create_or_patch(map.name(), |secret| {
                    secret.metadata.annotations.insert("seen", value.clone());
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
