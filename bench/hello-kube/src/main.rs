//! The smallest controller of kube-rs: what it takes to build, how big it is, how soon it reconciles.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client};

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::all(Client::try_default().await?);
    Controller::new(maps, watcher::Config::default())
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
