// Creates or updates a Deployment with server-side apply.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> kube::Result<()> {
    let deployments = Api::<Deployment>::namespaced(Client::try_default().await?, "default");
    let wanted = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "side-by-side" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "side-by-side" } },
            "template": {
                "metadata": { "labels": { "app": "side-by-side" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx:1.29" }] },
            },
        },
    });
    let applied =
        deployments.patch("side-by-side", &PatchParams::apply("me"), &Patch::Apply(wanted)).await?;
    println!("applied {}", applied.name_any());
    Ok(())
}
