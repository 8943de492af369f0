// Prints the running pods of an app, 100 at a time.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ResourceExt};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let pods = Api::<Pod>::all(Client::try_default().await?);
    let mut running =
        ListParams::default().labels("app=side-by-side").fields("status.phase=Running").limit(100);
    loop {
        let page = pods.list(&running).await?;
        for pod in &page {
            println!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => running = running.continue_token(&token),
            _ => return Ok(()),
        }
    }
}
