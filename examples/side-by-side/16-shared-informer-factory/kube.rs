// Counts nodes and pods in caches.

use std::future::ready;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{Selector, SelectorExt};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let (nodes, writer) = reflector::store();
    let changes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
    let changes = changes.default_backoff().reflect(writer);
    tokio::spawn(changes.for_each(|_| ready(())));
    let (pods, writer) = reflector::store();
    let changes = watcher(Api::<Pod>::all(client), watcher::Config::default());
    let changes = changes.default_backoff().reflect(writer);
    tokio::spawn(changes.for_each(|_| ready(())));
    nodes.wait_until_ready().await?;
    pods.wait_until_ready().await?;
    let app: Selector = [("app", "side-by-side")].into_iter().collect();
    let ours = pods
        .state()
        .into_iter()
        .filter(|pod| pod.namespace().as_deref() == Some("default") && app.matches(pod.labels()));
    println!("{} nodes, {} pods", nodes.len(), ours.count());
    Ok(())
}
