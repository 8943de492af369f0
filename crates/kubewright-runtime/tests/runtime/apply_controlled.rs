//! Server-side apply of objects that the reconciled object controls.

use kubewright_api::core::v1::{Secret, SecretApply};
use kubewright_apiserver::RunningServer;
use kubewright_client::Api;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{ByteString, Object};
use kubewright_runtime::ownership::is_controlled_by;
use kubewright_runtime::{Context, Outcome};

use crate::support::{Journal, Running, config_map, config_maps, controller, server, touch};

fn secrets(server: &RunningServer) -> Api<Secret> {
    Api::namespaced(&server.client(), "default")
}

/// A controller that applies a secret with the data of each config map, and notes the results.
fn start(server: &RunningServer, journal: &Journal, namespace: &'static str) -> Running {
    let controller = controller(server).owns::<Secret>();
    Running::start(controller.reconciling_with(journal.clone(), move |map, context: Context, journal| async move {
        let data = map.data.iter().map(|(name, value)| (name.as_str(), ByteString::from(value.as_bytes().to_vec())));
        let wanted = SecretApply::new(map.name()).data(data);
        let options = ApplyOptions::new("test-controller").force();
        let applied = context.api::<Secret>(namespace).apply_controlled(&*map, &wanted, &options).await;
        journal.note(applied.map_or_else(|error| error.to_string(), |secret| secret.resource_version().to_owned()));
        Ok(Outcome::Done)
    }))
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_updated_and_otherwise_unchanged() {
    let (server, journal) = (server().await, Journal::default());
    let running = start(&server, &journal, "default").working().await;
    let map = config_maps(&server).create(&config_map("a")).await.unwrap();
    running.idle().await;
    let secret = secrets(&server).get("a").await.unwrap();
    assert!(is_controlled_by(&secret, &map));
    // The events of the secret lead to reconciles that write nothing.
    let versions = journal.take();
    assert!(
        !versions.is_empty() && versions.iter().all(|version| version == secret.resource_version()),
        "{versions:?}"
    );

    touch(&server, "a", "new").await;
    running.idle().await;
    assert!(secrets(&server).get("a").await.unwrap().data.contains_key("value"));
    let mut map = config_maps(&server).get("a").await.unwrap();
    map.data.remove("value");
    config_maps(&server).update(&map).await.unwrap();
    running.idle().await;
    let secret = secrets(&server).get("a").await.unwrap();
    assert!(secret.data.is_empty() && is_controlled_by(&secret, &map));
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_stays_unchanged() {
    let (server, journal) = (server().await, Journal::default());
    let mut foreign = Secret::default();
    foreign.set_name("a");
    let foreign = secrets(&server).create(&foreign).await.unwrap();
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let running = start(&server, &journal, "default").working().await;
    running.idle().await;
    assert_eq!(journal.take(), ["object default/a exists and has no controller, so it is not taken over"]);
    assert_eq!(secrets(&server).get("a").await.unwrap(), foreign);
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_owner_must_be_in_the_same_namespace() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let running = start(&server, &journal, "kube-system").working().await;
    running.idle().await;
    let errors = journal.take();
    assert!(errors.len() == 1 && errors[0].contains("namespace"), "{errors:?}");
    assert!(Api::<Secret>::namespaced(&server.client(), "kube-system").get_opt("a").await.unwrap().is_none());
    running.stopped().await.unwrap();
}
