// Prints the running pods of an app, 100 at a time.

use kubewright::api::core::v1::Pod;
use kubewright::client::Pager;
use kubewright::options::ListOptions;
use kubewright::{AllNamespaces, Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = Client::try_default().await?.api::<Pod>(AllNamespaces);
    let running = ListOptions::default()
        .labels("app=side-by-side".parse()?)
        .fields("status.phase=Running".parse()?);
    let mut running = Pager::new(pods).page_size(100).each(running);
    while let Some(pod) = running.next().await {
        println!("{}", pod?.key());
    }
    Ok(())
}
