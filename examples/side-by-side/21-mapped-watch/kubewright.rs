// Restarts Deployments that ask for it when the config map of their name changes.

use std::sync::Arc;

use kubewright::api::apps::v1::Deployment;
use kubewright::api::core::v1::ConfigMap;
use kubewright::options::Patch;
use kubewright::runtime::{BoxError, Context, Freshness, Manager, Outcome, shutdown_on_signals};
use kubewright::{Client, Object, json};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, Default::default());
    let controller = manager.controller::<Deployment>("restart");
    let controller = controller.watches::<ConfigMap>(|map| vec![map.key()]);
    manager.add(controller.reconciling(reconcile))?;
    Ok(manager.run(&shutdown).await?)
}

async fn reconcile(deployment: Arc<Deployment>, context: Context) -> Result<Outcome, BoxError> {
    let maps = context.api::<ConfigMap>(deployment.namespace());
    let map = maps.get(deployment.name(), Freshness::Cached).await?;
    let Some(map) =
        map.filter(|_| deployment.labels().get("side-by-side/restarts") == Some("with-config-map"))
    else {
        return Ok(Outcome::Done);
    };
    let pod = deployment.spec.as_ref().map(|spec| &spec.template.metadata.annotations);
    let version = pod.and_then(|annotations| annotations.get("side-by-side/config-map"));
    if version.map(|version| version.as_str()) != Some(map.resource_version()) {
        let annotations = json!({ "side-by-side/config-map": map.resource_version() });
        let patch =
            json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        let deployments = context.api::<Deployment>(deployment.namespace());
        deployments.patch(deployment.name(), Patch::merge(patch)).await?;
        println!("{} restarts", deployment.name());
    }
    Ok(Outcome::Done)
}
