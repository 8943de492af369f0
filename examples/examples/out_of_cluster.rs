//! Out-of-cluster configuration from a kubeconfig: counts pods every ten seconds, and gets one of
//! them.
//!
//! `cargo run -p kubewright-examples --example out_of_cluster -- --kubeconfig ~/.kube/config`

use std::time::Duration;

use clap::Parser;
use kubewright::options::ListOptions;
use kubewright::{AllNamespaces, Client, Error};
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::parse();
    let connection = arguments.connect().await?;
    let mut round = 0;
    loop {
        look(&connection.client).await?;
        round += 1;
        if arguments.rounds.is_some_and(|rounds| round >= rounds) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

async fn look(client: &Client) -> Outcome {
    let pods = client.core_v1().pods(AllNamespaces).list(&ListOptions::default()).await?;
    println!("There are {} pods in the cluster", pods.items.len());
    match client.core_v1().pods("default").get("example-xxxxx").await {
        Ok(_) => println!("Found example-xxxxx pod in default namespace"),
        Err(error) if error.is_not_found() => println!("Pod example-xxxxx not found in default namespace"),
        Err(Error::Status(status)) => println!("Error getting pod {}", status.message.as_deref().unwrap_or_default()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
