// Counts the pods of each node in an indexed cache.

use kubewright::api::core::v1::Pod;
use kubewright::cache::{FactoryOptions, Indexers, SharedInformerFactory};
use kubewright::{CancellationToken, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let by_node =
        Indexers::by_namespace().with("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone());
    let options = FactoryOptions::default().indexers_of::<Pod>(by_node);
    let factory = SharedInformerFactory::new(&client, options);
    let pods = factory.core_v1().pods().lister();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await?;
    println!("{} pods on node-1", pods.by_index("node", "node-1")?.len());
    factory.shutdown().await;
    Ok(())
}
