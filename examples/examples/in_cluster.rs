//! In-cluster configuration, with the service account of the pod.
//!
//! Run it in a pod whose service account may list pods; elsewhere it reports the missing files. A
//! rotated token is reloaded. The cluster's certificate authority is required.

use clap::Parser;
use kubewright::client::config::InCluster;
use kubewright::options::ListOptions;
use kubewright::{AllNamespaces, Client};
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let pod = InCluster::new();
    let client = if pod.is_possible() {
        Client::try_from(pod.config()?)?
    } else {
        println!("this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
        let connection = Arguments::parse().connect().await?;
        return count(&connection.client).await;
    };
    count(&client).await
}

async fn count(client: &Client) -> Outcome {
    let pods = client.core_v1().pods(AllNamespaces).list(&ListOptions::default()).await?;
    println!("There are {} pods in the cluster", pods.items.len());
    Ok(())
}
