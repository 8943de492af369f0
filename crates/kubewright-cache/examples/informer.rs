//! Prints what happens to config maps, in a server of its own: `cargo run -p kubewright-cache --example informer`.

use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::ApiServer;
use kubewright_cache::{FactoryOptions, HandlerFuncs, SharedInformerFactory};
use kubewright_core::{Object, Selector, Str};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::in_memory().start().await?;
    let client = server.client();

    let factory = SharedInformerFactory::new(&client, FactoryOptions::default().namespace("default"));
    let config_maps = factory.core_v1().config_maps();
    let handler = config_maps.add_handler(
        HandlerFuncs::<ConfigMap>::default()
            .on_add(|object, is_in_initial_list| println!("added {} (at first: {is_in_initial_list})", object.key()))
            .on_update(|old, new| println!("updated {} to {}", old.key(), new.resource_version()))
            .on_delete(|deleted| println!("deleted {}", deleted.key())),
    )?;
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await?;
    handler.synced().await;

    let api = client.core_v1().config_maps("default");
    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("settings".into());
    let mut settings = api.create(&settings).await?;
    settings.data.insert("colour", Str::from("blue"));
    api.update(&settings).await?;
    api.delete("settings").await?;
    // Long enough for the handler to hear of all that.
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("{} left", config_maps.lister().list(&Selector::default()).len());

    factory.shutdown().await;
    server.stop().await;
    Ok(())
}
