// Counts the pods of each node in an indexed cache.

use std::collections::HashMap;
use std::future::ready;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let (pods, writer) = reflector::store();
    let changes = watcher(Api::<Pod>::all(client), watcher::Config::default());
    let changes = changes.default_backoff().reflect(writer);
    tokio::spawn(changes.for_each(|_| ready(())));
    pods.wait_until_ready().await?;
    // A store has no indices, so this one is built for each question.
    let mut by_node = HashMap::<_, Vec<_>>::new();
    for pod in pods.state() {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    println!("{} pods on node-1", by_node.get("node-1").map_or(0, Vec::len));
    Ok(())
}
