// Waits until the rollout of a Deployment is complete.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use tokio::time::timeout;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let deployments = Api::<Deployment>::namespaced(Client::try_default().await?, "default");
    let rollout =
        await_condition(deployments, "side-by-side", conditions::is_deployment_completed());
    timeout(Duration::from_secs(60), rollout).await??;
    println!("rolled out");
    Ok(())
}
