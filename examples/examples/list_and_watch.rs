//! The protocol below an informer: a list, then a watch from the version of the list.
//!
//! `cargo run -p kubewright-examples --example list_and_watch -- --embedded --rounds 1`

use clap::Parser;
use kubewright::Object;
use kubewright::api::core::v1::Pod;
use kubewright::options::{ListOptions, WatchOptions};
use kubewright::stream::WatchEvent;
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::parse();
    let connection = arguments.connect().await?;
    let pods = connection.client.core_v1().pods("default");

    let list = pods.list(&ListOptions::default()).await?;
    let version = list.metadata.resource_version.clone().unwrap_or_default();
    list.items.iter().for_each(|pod| println!("LISTED   {}", pod.key()));

    let mut watch = pods.watch(&WatchOptions::default().resource_version(version).bookmarks()).await?;
    if connection.is_embedded() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("watched".into());
        pod.spec.get_or_insert_default().containers = list.items[0].spec.clone().unwrap_or_default().containers;
        pods.create(&pod).await?;
    }
    let mut round = 0;
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Added(pod) => println!("ADDED    {}", pod.key()),
            WatchEvent::Modified(pod) => println!("MODIFIED {}", pod.key()),
            WatchEvent::Deleted(pod) => println!("DELETED  {}", pod.key()),
            WatchEvent::Bookmark(pod) => println!("BOOKMARK {}", pod.resource_version()),
            WatchEvent::Error(status) => println!("ERROR    {status}"),
        }
        round += 1;
        if arguments.rounds.is_some_and(|rounds| round >= rounds) {
            break;
        }
    }
    Ok(())
}
