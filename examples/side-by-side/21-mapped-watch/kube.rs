// Restarts Deployments that ask for it when the config map of their name changes.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{reflector::ObjectRef, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let maps = Api::<ConfigMap>::all(client.clone());
    Controller::new(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .watches(maps, watcher::Config::default(), |map| {
            map.namespace().map(|namespace| ObjectRef::new(&map.name_any()).within(&namespace))
        })
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(deployment: Arc<Deployment>, client: Arc<Client>) -> kube::Result<Action> {
    if deployment.labels().get("side-by-side/restarts").map(String::as_str)
        != Some("with-config-map")
    {
        return Ok(Action::await_change());
    }
    let namespace = deployment.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    let Some(map) = maps.get_opt(&deployment.name_any()).await? else {
        return Ok(Action::await_change());
    };
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let annotations = pod.and_then(|metadata| metadata.annotations.as_ref());
    let version =
        annotations.and_then(|annotations| annotations.get("side-by-side/config-map")).cloned();
    if version != map.resource_version() {
        let annotations = json!({ "side-by-side/config-map": map.resource_version() });
        let patch =
            json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        let deployments = Api::<Deployment>::namespaced((*client).clone(), &namespace);
        let options = PatchParams::default();
        deployments.patch(&deployment.name_any(), &options, &Patch::Merge(patch)).await?;
        println!("{} restarts", deployment.name_any());
    }
    Ok(Action::await_change())
}

fn on_error(_: Arc<Deployment>, error: &kube::Error, _: Arc<Client>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}
