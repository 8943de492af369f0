// Runs a Deployment for each Widget.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[kube(group = "side-by-side.example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    image: String,
    replicas: i32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    Controller::new(Api::<Widget>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(widget: Arc<Widget>, client: Arc<Client>) -> kube::Result<Action> {
    let namespace = widget.namespace().unwrap_or_default();
    let deployments = Api::<Deployment>::namespaced((*client).clone(), &namespace);
    let name = widget.name_any();
    let wanted = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [widget.controller_owner_ref(&())] },
        "spec": {
            "replicas": widget.spec.replicas,
            "selector": { "matchLabels": { "widget": name } },
            "template": {
                "metadata": { "labels": { "widget": name } },
                "spec": { "containers": [{ "name": "web", "image": widget.spec.image }] },
            },
        },
    });
    let manager = PatchParams::apply("widgets").force();
    let deployment = deployments.patch(&name, &manager, &Patch::Apply(wanted)).await?;
    println!("{} has a Deployment", deployment.name_any());
    Ok(Action::await_change())
}

fn on_error(_: Arc<Widget>, error: &kube::Error, _: Arc<Client>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}
