// Reconciles only when the spec of a Deployment of our app changes.

use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let ours = watcher::Config::default().labels("app=side-by-side");
    let (reader, writer) = reflector::store();
    let changes = watcher(Api::<Deployment>::all(client), ours)
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream(changes, reader)
        .shutdown_on_signal()
        .run(reconcile, |_, error, _| match *error {}, Arc::new(()))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(deployment: Arc<Deployment>, _: Arc<()>) -> Result<Action, Infallible> {
    let generation = deployment.metadata.generation.unwrap_or_default();
    println!("{} has generation {generation}", deployment.name_any());
    Ok(Action::await_change())
}
