// Creates or updates a Deployment with server-side apply.

use kubewright::api::apps::v1::{Deployment, DeploymentApply};
use kubewright::api::core::v1::ContainerApply;
use kubewright::options::ApplyOptions;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let deployments = Client::try_default().await?.api::<Deployment>("default");
    let labels = [("app", "side-by-side")];
    let container = ContainerApply::default().name("web").image("nginx:1.29");
    let wanted = DeploymentApply::new("side-by-side").spec(|spec| {
        spec.replicas(2).selector(|selector| selector.match_labels(labels)).template(|pod| {
            pod.metadata(|metadata| metadata.labels(labels))
                .spec(|spec| spec.containers([container]))
        })
    });
    let applied = deployments.apply_configuration(&wanted, &ApplyOptions::new("me")).await?;
    println!("applied {}", applied.name());
    Ok(())
}
