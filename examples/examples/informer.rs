//! An informer that prints pod events: added, updated, deleted.
//!
//! `cargo run -p kubewright-examples --example informer -- --embedded --rounds 4`

use clap::Parser;
use kubewright::api::core::v1::Pod;
use kubewright::cache::{Event, FactoryOptions, SharedInformerFactory};
use kubewright::options::{DeleteOptions, Patch};
use kubewright::{CancellationToken, Object, json};
use kubewright_examples::{Arguments, Outcome};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::parse();
    let connection = arguments.connect().await?;
    let factory = SharedInformerFactory::new(&connection.client, FactoryOptions::default().namespace("default"));
    let pods = factory.informer::<Pod>();
    let (sender, mut events) = mpsc::channel(100);
    let handler = pods.add_handler(sender)?;
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await?;

    if connection.is_embedded() {
        let api = connection.client.core_v1().pods("default");
        api.patch("example-xxxxx", Patch::merge(json!({"metadata": {"labels": {"seen": "yes"}}}))).await?;
        api.delete_with("example-xxxxx", &DeleteOptions::default().grace_period_seconds(0)).await?;
    }
    let mut round = 0;
    while let Some(event) = events.recv().await {
        match event {
            Event::Added { object, .. } => println!("pod added: {}", object.key()),
            Event::Updated { old, new } => {
                println!("pod updated: {} from {} to {}", new.key(), old.resource_version(), new.resource_version());
            }
            Event::Deleted(deleted) => println!("pod deleted: {}", deleted.key()),
        }
        round += 1;
        if arguments.rounds.is_some_and(|rounds| round >= rounds) {
            break;
        }
    }
    handler.remove();
    factory.shutdown().await;
    Ok(())
}
