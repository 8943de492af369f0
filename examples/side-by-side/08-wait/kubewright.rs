// Waits until the rollout of a Deployment is complete.

use std::time::Duration;

use kubewright::Client;
use kubewright::api::apps::v1::Deployment;
use kubewright::client::watch::{await_condition, conditions};
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let deployments = Client::try_default().await?.api::<Deployment>("default");
    let rollout = await_condition(&deployments, "side-by-side", conditions::has_rolled_out());
    timeout(Duration::from_secs(60), rollout).await??;
    println!("rolled out");
    Ok(())
}
