// Prints changes of the pods in the namespace default.

use std::pin::pin;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let pods = Api::<Pod>::namespaced(client, "default");
    let mut changes = pin!(watcher(pods, watcher::Config::default()).default_backoff());
    while let Some(event) = changes.try_next().await? {
        match event {
            watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
                println!("changed {}", pod.name_any())
            }
            watcher::Event::Delete(pod) => println!("deleted {}", pod.name_any()),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
    Ok(())
}
