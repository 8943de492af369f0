//! The dynamic client: any resource by name, without types.
//!
//! `cargo run -p kubewright-examples --example dynamic_client -- --embedded`

use clap::Parser;
use kubewright::options::ListOptions;
use kubewright::{GroupVersionResource, Object};
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let pods = connection.client.dynamic(GroupVersionResource::from_static("", "v1", "pods"));
    for pod in pods.list(&ListOptions::default().limit(500)).await? {
        let phase = pod.get(&["status", "phase"]).unwrap_or_default();
        println!("{} {} {phase}", pod.group_version_kind(), pod.key());
    }
    Ok(())
}
