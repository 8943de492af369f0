// Prints changes of the pods in the namespace default.

use kubewright::api::core::v1::Pod;
use kubewright::cache::{InformerOptions, ListWatch, indexer_informer_watcher};
use kubewright::stream::WatchEvent;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let pods = ListWatch::new(client.api::<Pod>("default"));
    let mut changes = indexer_informer_watcher(pods, InformerOptions::default());
    while let Some(event) = changes.next().await {
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                println!("changed {}", pod.name())
            }
            WatchEvent::Deleted(pod) => println!("deleted {}", pod.name()),
            _ => {}
        }
    }
    Ok(())
}
