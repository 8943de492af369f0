// Prints names of secrets that change, and never reads their data.

use std::pin::pin;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client, "default");
    let changes = watcher(secrets, watcher::Config::default());
    let mut changes = pin!(changes.default_backoff().applied_objects());
    while let Some(secret) = changes.try_next().await? {
        println!("changed {}", secret.name_any());
    }
    Ok(())
}
