// Prints changes of the phases of pods.

use std::collections::HashMap;
use std::pin::pin;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let pods = Api::<Pod>::namespaced(client, "default");
    let mut events = pin!(watcher(pods, watcher::Config::default()).default_backoff());
    let mut phases = HashMap::new();
    let mut listed = HashMap::new();
    while let Some(event) = events.try_next().await? {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(pod) => {
                changed(&pod, phases.get(&pod.name_any()));
                listed.insert(pod.name_any(), phase(&pod));
            }
            watcher::Event::InitDone => {
                for name in phases.keys().filter(|name| !listed.contains_key(*name)) {
                    println!("{name}: deleted");
                }
                phases = std::mem::take(&mut listed);
                println!("{} pods", phases.len());
            }
            watcher::Event::Apply(pod) => {
                let old = phases.insert(pod.name_any(), phase(&pod));
                changed(&pod, old.as_ref());
            }
            watcher::Event::Delete(pod) => {
                phases.remove(&pod.name_any());
                println!("{}: deleted", pod.name_any());
            }
        }
    }
    Ok(())
}

fn changed(pod: &Pod, old: Option<&String>) {
    let new = phase(pod);
    if let Some(old) = old.filter(|old| **old != new) {
        println!("{}: {old} to {new}", pod.name_any());
    }
}

fn phase(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}
