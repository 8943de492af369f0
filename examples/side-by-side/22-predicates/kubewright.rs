// Reconciles only when the spec of a Deployment of our app changes.

use kubewright::api::apps::v1::Deployment;
use kubewright::runtime::{BoxError, Manager, Outcome, Predicate, shutdown_on_signals};
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, Default::default());
    let ours = Predicate::labels_match("app=side-by-side".parse()?);
    let controller = manager.controller::<Deployment>("specs");
    let controller = controller.filter(Predicate::generation_changed().and(ours));
    manager.add(controller.reconciling(|deployment, _| async move {
        let generation = deployment.metadata.generation.unwrap_or_default();
        println!("{} has generation {generation}", deployment.name());
        Ok(Outcome::Done)
    }))?;
    Ok(manager.run(&shutdown).await?)
}
