// Scales a Deployment.

use kubewright::api::apps::v1::Deployment;
use kubewright::options::Patch;
use kubewright::{Client, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let deployments = Client::try_default().await?.api::<Deployment>("default");
    let patch = Patch::merge(json!({ "spec": { "replicas": 3 } }));
    let scale = deployments.patch_scale("side-by-side", patch).await?;
    println!("{:?}", scale.spec.and_then(|spec| spec.replicas));
    Ok(())
}
