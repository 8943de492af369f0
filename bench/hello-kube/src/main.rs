//! The smallest controller of kube-rs, to measure build time, size and time to the first reconcile.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    let controller = Controller::new(Api::<ConfigMap>::all(client.clone()), watcher::Config::default());
    #[cfg(feature = "kinds")]
    let controller = {
        use k8s_openapi::api::apps::v1::Deployment;
        use k8s_openapi::api::core::v1::{Pod, Secret, Service};
        controller
            .owns(Api::<Secret>::all(client.clone()), watcher::Config::default())
            .owns(Api::<Service>::all(client.clone()), watcher::Config::default())
            .owns(Api::<Pod>::all(client.clone()), watcher::Config::default())
            .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default())
    };
    controller
        .run(
            |_, _| async {
                println!("reconciled");
                Ok::<_, kube::Error>(Action::await_change())
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .for_each(|_| async {})
        .await;
    Ok(())
}
