// Counts nodes and pods in caches.

use kubewright::cache::{FactoryOptions, SharedInformerFactory};
use kubewright::{CancellationToken, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default());
    let nodes = factory.core_v1().nodes().lister();
    let pods = factory.core_v1().pods().lister();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await?;
    let ours = pods.namespace("default").list(&"app=side-by-side".parse()?);
    println!("{} nodes, {} pods", nodes.snapshot().len(), ours.len());
    factory.shutdown().await;
    Ok(())
}
