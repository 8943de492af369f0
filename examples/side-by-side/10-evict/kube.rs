// Evicts the pods of an app, as far as disruption budgets allow it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams, ResourceExt};
use kube::{Api, Client, Error};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let pods = Api::<Pod>::namespaced(Client::try_default().await?, "default");
    for pod in pods.list(&ListParams::default().labels("app=side-by-side")).await? {
        match pods.evict(&pod.name_any(), &EvictParams::default()).await {
            Ok(_) => println!("evicted {}", pod.name_any()),
            Err(Error::Api(status)) if status.code == 429 => println!("kept {}", pod.name_any()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
