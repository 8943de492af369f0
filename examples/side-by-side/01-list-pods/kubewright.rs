// Prints all pods of the cluster.

use kubewright::api::core::v1::Pod;
use kubewright::{AllNamespaces, Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    for pod in client.api::<Pod>(AllNamespaces).list(&Default::default()).await? {
        println!("{}", pod.key());
    }
    Ok(())
}
