//! Lists the groups, versions and resources of a server, like `kubectl api-resources`.
//!
//! `cargo run -p kubewright-examples --example discovery_client -- --embedded`

use clap::Parser;
use kubewright_examples::{Arguments, Outcome};

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let discovery = connection.client.discovery();
    println!("server version {}", discovery.server_version().await?.git_version);

    let found = discovery.discover().await?;
    for failure in &found.failures {
        println!("not complete: {failure:?}");
    }
    for (group_version, resource) in found.preferred_resources() {
        println!("{:40} {:30} {}", resource.plural, group_version.to_string(), resource.short_names.join(","));
    }
    let mapping = connection.client.rest_mapper().find("deploy").await?;
    println!("deploy means {}", mapping.resource);
    Ok(())
}
