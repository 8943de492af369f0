// Deletes config maps with a lifetime when it ends.

use std::time::Duration;

use kubewright::api::core::v1::ConfigMap;
use kubewright::options::DeleteOptions;
use kubewright::runtime::{BoxError, Manager, Outcome, ResultExt, shutdown_on_signals};
use kubewright::{Client, Object, Time};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, Default::default());
    let controller = manager.controller::<ConfigMap>("lifetimes");
    manager.add(controller.reconciling(|map, context| async move {
        let Some(lifetime) = map.annotations().get("side-by-side/lifetime-seconds") else {
            return Ok(Outcome::Done);
        };
        // Only a change of the annotation can repair this, so it is not retried.
        let lifetime = Duration::from_secs(lifetime.parse().terminal()?);
        let created = map.metadata.creation_timestamp.unwrap_or_default();
        let age = Time::now().duration_since(created).unwrap_or_default();
        if age < lifetime {
            return Ok(Outcome::requeue_after(lifetime - age));
        }
        let maps = context.api::<ConfigMap>(map.namespace());
        maps.delete_with(map.name(), &DeleteOptions::default().uid(map.uid())).await?;
        println!("deleted {}", map.name());
        Ok(Outcome::Done)
    }))?;
    Ok(manager.run(&shutdown).await?)
}
