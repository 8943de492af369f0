//! The smallest controller of kubewright, to measure build time, size and time to the first
//! reconcile.

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::cache::SharedInformerFactory;
use kubewright::runtime::{Controller, Outcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let factory = SharedInformerFactory::new(&client, Default::default());
    let controller = Controller::<ConfigMap>::new("hello", &factory);
    #[cfg(feature = "kinds")]
    let controller = {
        use kubewright::api::{
            apps::v1::Deployment,
            core::v1::{Pod, Secret, Service},
        };
        controller.owns::<Secret>().owns::<Service>().owns::<Pod>().owns::<Deployment>()
    };
    let controller = controller.reconciling(|_, _| async {
        println!("reconciled");
        Ok(Outcome::Done)
    });
    controller.run(&Default::default()).await?;
    Ok(())
}
