// Evicts the pods of an app, as far as disruption budgets allow it.

use kubewright::api::core::v1::Pod;
use kubewright::api::policy::v1::Eviction;
use kubewright::options::ListOptions;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = Client::try_default().await?.api::<Pod>("default");
    for pod in pods.list(&ListOptions::default().labels("app=side-by-side".parse()?)).await? {
        match pods.evict(pod.name(), &Eviction::default()).await {
            Ok(()) => println!("evicted {}", pod.name()),
            Err(error) if error.is_too_many_requests() => println!("kept {}", pod.name()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
