//! The workqueue controller of client-go's examples: an informer of the pods in `default`, a
//! workqueue, and workers that sync keys.
//!
//! A failed sync is retried with back-off, and dropped with a message after five retries.
//!
//! `cargo run -p kubewright-examples --example workqueue_controller -- --embedded --rounds 1`

use std::time::Duration;

use clap::Parser;
use kubewright::api::core::v1::Pod;
use kubewright::cache::{Event, FactoryOptions, Lister, SharedInformerFactory};
use kubewright::workqueue::{QueueOptions, RateLimitingQueue, limiter};
use kubewright::{CancellationToken, Object, ObjectKey};
use kubewright_examples::{Arguments, Connection, Outcome};

/// Maximum number of retries of a pod.
const MAX_RETRIES: u32 = 5;

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::parse();
    let connection = arguments.connect().await?;
    let factory = SharedInformerFactory::new(&connection.client, FactoryOptions::default().namespace("default"));
    let pods = factory.core_v1().pods();
    let queue = RateLimitingQueue::<ObjectKey>::new(limiter::controller_default(), QueueOptions::new().name("pods"));

    // Handlers only add the key of a changed pod; the worker reads its state from the cache.
    let changed = queue.clone();
    let _handler = pods.add_handler(move |event: &Event<Pod>| match event {
        Event::Added { object, .. } => changed.add(object.key()),
        Event::Updated { new, .. } => changed.add(new.key()),
        Event::Deleted(deleted) => changed.add(deleted.key()),
    })?;

    println!("Starting Pod controller");
    let stop = CancellationToken::new();
    factory.start(&stop);
    factory.wait_for_cache_sync().await?;
    let story = tokio::spawn(tell(connection));

    let mut dropped = 0;
    while let Some(claim) = queue.get().await {
        match sync_to_stdout(&pods.lister(), claim.key()) {
            Ok(()) => queue.forget(&claim),
            Err(error) if queue.num_requeues(&claim) < MAX_RETRIES => {
                println!("Error syncing pod {}: {error}", claim.key());
                queue.add_rate_limited(claim.key().clone());
            }
            Err(error) => {
                println!("Dropping pod {} out of the queue: {error}", claim.key());
                queue.forget(&claim);
                dropped += 1;
            }
        }
        if arguments.rounds.is_some_and(|rounds| dropped >= rounds) {
            queue.shut_down();
        }
    }
    println!("Stopping Pod controller");
    stop.cancel();
    factory.shutdown().await;
    story.await??;
    Ok(())
}

/// The business logic: prints the state of a pod. The sync of a pod labelled `broken` fails.
fn sync_to_stdout(pods: &Lister<Pod>, key: &ObjectKey) -> Result<(), String> {
    match pods.namespace(key.namespace()).get(key.name()) {
        None => println!("Pod {key} does not exist anymore"),
        Some(pod) if pod.labels().get("broken").is_some() => return Err("it is broken".to_owned()),
        // The uid distinguishes a pod from an earlier one of the same name.
        Some(pod) => println!("Sync/Add/Update for Pod {} ({})", pod.name(), pod.uid()),
    }
    Ok(())
}

/// With the embedded server: creates a pod and a broken one, and deletes the first.
async fn tell(connection: Connection) -> Result<Connection, kubewright::Error> {
    if connection.is_embedded() {
        let pods = connection.client.core_v1().pods("default");
        let example = pods.get("example-xxxxx").await?;
        let mut broken = Pod { spec: example.spec.clone(), ..Default::default() };
        broken.metadata.name = Some("broken".into());
        broken.metadata.labels.insert("broken", "yes".into());
        pods.create(&broken).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = kubewright::options::DeleteOptions::default().grace_period_seconds(0);
        pods.delete_with("example-xxxxx", &now).await?;
    }
    Ok(connection)
}
