//! The REST client below all others: verb, path, response.
//!
//! `cargo run -p kubewright-examples --example rest_client -- --embedded`

use clap::Parser;
use kubewright::api::core::v1::Pod;
use kubewright::{GroupVersion, Object};
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let rest = connection.client.rest().group_version(GroupVersion::from_static("", "v1"));

    let pods = rest.get().namespace("kube-system").resource("pods").parameter("limit", "100").send().await?;
    for pod in pods.decode_list::<Pod>()? {
        println!("namespace: {}, name: {}", pod.namespace(), pod.name());
    }
    let version = rest.get().absolute_path("/version").send().await?;
    println!("{}", version.text());
    Ok(())
}
