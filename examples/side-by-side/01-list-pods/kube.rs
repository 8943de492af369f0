// Prints all pods of the cluster.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ResourceExt};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let client = Client::try_default().await?;
    for pod in Api::<Pod>::all(client).list(&ListParams::default()).await? {
        println!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    }
    Ok(())
}
