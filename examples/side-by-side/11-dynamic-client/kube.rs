// Prints the objects of any resource in the namespace default.

use anyhow::Context;
use kube::api::{DynamicObject, ListParams, ResourceExt};
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let resource = std::env::args().nth(1).unwrap_or("deployments.apps".into());
    let (plural, group) = resource.split_once('.').unwrap_or((&resource, ""));
    let client = Client::try_default().await?;
    let discovery = Discovery::new(client.clone()).run().await?;
    let (resource, capabilities) = discovery
        .get(group)
        .and_then(|group| {
            group
                .recommended_resources()
                .into_iter()
                .find(|(resource, _)| resource.plural == plural)
        })
        .context("the server does not have this resource")?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => Api::namespaced_with(client, "default", &resource),
    };
    for object in api.list(&ListParams::default()).await? {
        println!("{}", object.name_any());
    }
    Ok(())
}
