// Prints changes of the phases of pods.

use kubewright::api::core::v1::Pod;
use kubewright::cache::{Event, FactoryOptions, SharedInformerFactory};
use kubewright::runtime::shutdown_on_signals;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let options = FactoryOptions::default().namespace("default");
    let factory = SharedInformerFactory::new(&client, options);
    let pods = factory.informer::<Pod>();
    let _handler = pods.add_handler(|event: &Event<Pod>| match event {
        Event::Updated { old, new } if phase(old) != phase(new) => {
            println!("{}: {} to {}", new.name(), phase(old), phase(new))
        }
        Event::Deleted(pod) => println!("{}: deleted", pod.key().name()),
        _ => {}
    })?;
    factory.start(&shutdown);
    factory.wait_for_cache_sync().await?;
    println!("{} pods", pods.lister().snapshot().len());
    shutdown.cancelled().await;
    factory.shutdown().await;
    Ok(())
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
