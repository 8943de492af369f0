// Deletes config maps with a lifetime when it ends.

use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("invalid lifetime: {0}")]
    Lifetime(#[from] ParseIntError),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    Controller::new(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let Some(lifetime) = map.annotations().get("side-by-side/lifetime-seconds") else {
        return Ok(Action::await_change());
    };
    let lifetime = Duration::from_secs(lifetime.parse()?);
    let created = map.creation_timestamp().map(|time| time.0).unwrap_or_default();
    let age = Duration::try_from(Timestamp::now().duration_since(created)).unwrap_or_default();
    if age < lifetime {
        return Ok(Action::requeue(lifetime - age));
    }
    let namespace = map.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    let options = DeleteParams::default()
        .preconditions(Preconditions { uid: map.uid(), resource_version: None });
    maps.delete(&map.name_any(), &options).await?;
    println!("deleted {}", map.name_any());
    Ok(Action::await_change())
}

fn on_error(_: Arc<ConfigMap>, error: &Error, _: Arc<Client>) -> Action {
    eprintln!("{error}");
    match error {
        // Only a change of the annotation can repair this, so it is not retried.
        Error::Lifetime(_) => Action::await_change(),
        Error::Kube(_) => Action::requeue(Duration::from_secs(5)),
    }
}
