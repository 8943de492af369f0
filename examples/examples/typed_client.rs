//! The typed client: gets a pod, counts running pods in all namespaces, and lists pods with their
//! nodes.
//!
//! `cargo run -p kubewright-examples --example typed_client -- --embedded`

use clap::Parser;
use kubewright::options::ListOptions;
use kubewright::{AllNamespaces, Object};
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let core = connection.client.core_v1();

    match core.pods("default").get("example-xxxxx").await {
        Ok(pod) => println!("found pod {} in {}", pod.name(), pod.namespace()),
        Err(error) if error.is_not_found() => println!("pod example-xxxxx not found in default namespace"),
        Err(error) => return Err(error.into()),
    }

    let pods = core.pods(AllNamespaces).list(&ListOptions::default()).await?;
    let running = pods
        .items
        .iter()
        .filter(|pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running")));
    println!("there are {} pods in the cluster, {} of them running", pods.items.len(), running.count());

    for pod in &pods.items {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node yet");
        println!("{} on {node}", pod.key());
    }
    for node in core.nodes().list(&ListOptions::default()).await? {
        println!("node {}", node.name());
    }
    Ok(())
}
