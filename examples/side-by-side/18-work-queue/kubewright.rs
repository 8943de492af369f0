// A controller by hand: an informer, a work queue and a worker.

use kubewright::api::core::v1::ConfigMap;
use kubewright::cache::{Event, FactoryOptions, Lister, SharedInformerFactory};
use kubewright::runtime::shutdown_on_signals;
use kubewright::workqueue::{QueueOptions, RateLimitingQueue, limiter};
use kubewright::{Client, ObjectKey};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let options = FactoryOptions::default().labels("app=side-by-side".parse()?);
    let factory = SharedInformerFactory::new(&client, options);
    let maps = factory.core_v1().config_maps();
    let queue = RateLimitingQueue::new(limiter::controller_default(), QueueOptions::new());
    let changed = queue.clone();
    let _handler = maps.add_handler(move |event: &Event<ConfigMap>| changed.add(event.key()))?;
    factory.start(&shutdown);
    factory.wait_for_cache_sync().await?;
    while let Some(claim) = shutdown.run_until_cancelled(queue.get()).await.flatten() {
        match sync(&maps.lister(), claim.key()) {
            Ok(()) => queue.forget(&claim),
            Err(_) if queue.num_requeues(&claim) < 5 => queue.add_rate_limited(claim.key().clone()),
            Err(error) => {
                println!("dropped {}: {error}", claim.key());
                queue.forget(&claim);
            }
        }
    }
    factory.shutdown().await;
    Ok(())
}

fn sync(maps: &Lister<ConfigMap>, key: &ObjectKey) -> Result<(), String> {
    if let Some(map) = maps.namespace(key.namespace()).get(key.name()) {
        let colour = map.data.get("colour").ok_or("it has no colour")?;
        println!("{key} is {colour}");
    }
    Ok(())
}
