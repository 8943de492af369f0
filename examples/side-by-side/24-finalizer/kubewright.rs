// Cleans up before a config map of our app is deleted.

use kubewright::api::core::v1::ConfigMap;
use kubewright::cache::FactoryOptions;
use kubewright::runtime::{
    BoxError, Finalizing, Manager, ManagerOptions, Outcome, finalize, shutdown_on_signals,
};
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let ours = FactoryOptions::default().labels_of::<ConfigMap>("app=side-by-side".parse()?);
    let mut manager = Manager::new(&client, ManagerOptions::default().caches(ours));
    let controller = manager.controller::<ConfigMap>("cleaner");
    manager.add(controller.reconciling(|map, context| async move {
        let maps = context.api::<ConfigMap>(map.namespace());
        finalize(&maps, "side-by-side.example.com/cleanup", map, |event| async move {
            match event {
                Finalizing::Apply(map) => println!("prepared {}", map.name()),
                Finalizing::Cleanup(map) => println!("cleaned up {}", map.name()),
            }
            Ok(Outcome::Done)
        })
        .await
    }))?;
    Ok(manager.run(&shutdown).await?)
}
