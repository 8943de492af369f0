// Runs a Deployment for each Widget.

use std::sync::Arc;

use kubewright::api::apps::v1::Deployment;
use kubewright::api::core::v1::Container;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::ownership::set_controller_reference;
use kubewright::runtime::{BoxError, Context, Manager, Outcome, shutdown_on_signals};
use kubewright::{Client, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "side-by-side.example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    image: String,
    replicas: i32,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, Default::default());
    let controller = manager.controller::<Widget>("widgets").owns::<Deployment>();
    manager.add(controller.reconciling(reconcile))?;
    Ok(manager.run(&shutdown).await?)
}

async fn reconcile(widget: Arc<Widget>, context: Context) -> Result<Outcome, BoxError> {
    let deployments = context.api::<Deployment>(widget.namespace());
    let written = deployments.create_or_update(widget.name(), |deployment| {
        set_controller_reference(&*widget, deployment)?;
        let spec = deployment.spec.get_or_insert_default();
        spec.replicas = Some(widget.spec.replicas);
        spec.selector.match_labels.insert("widget", widget.name().into());
        spec.template.metadata.labels.insert("widget", widget.name().into());
        let containers = &mut spec.template.spec.get_or_insert_default().containers;
        if containers.is_empty() {
            containers.extend([Container { name: "web".into(), ..Default::default() }]);
        }
        containers[0].image = Some(widget.spec.image.as_str().into());
        Ok(())
    });
    let (deployment, _) = written.await?;
    println!("{} has a Deployment", deployment.name());
    Ok(Outcome::Done)
}
