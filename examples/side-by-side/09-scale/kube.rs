// Scales a Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

#[tokio::main]
async fn main() -> kube::Result<()> {
    let deployments = Api::<Deployment>::namespaced(Client::try_default().await?, "default");
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    let scale = deployments.patch_scale("side-by-side", &PatchParams::default(), &patch).await?;
    println!("{:?}", scale.spec.and_then(|spec| spec.replicas));
    Ok(())
}
