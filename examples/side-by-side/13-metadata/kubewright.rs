// Prints names of secrets that change, and never reads their data.

use kubewright::api::core::v1::Secret;
use kubewright::cache::{InformerOptions, ListWatch, indexer_informer_watcher};
use kubewright::stream::WatchEvent;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let secrets = ListWatch::of_metadata(client.metadata_of::<Secret>().namespace("default"));
    let mut changes = indexer_informer_watcher(secrets, InformerOptions::default());
    while let Some(event) = changes.next().await {
        if let WatchEvent::Added(secret) | WatchEvent::Modified(secret) = event {
            println!("changed {}", secret.name());
        }
    }
    Ok(())
}
