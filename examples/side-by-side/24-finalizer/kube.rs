// Cleans up before a config map of our app is deleted.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};

type Error = finalizer::Error<Infallible>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let ours = watcher::Config::default().labels("app=side-by-side");
    Controller::new(Api::<ConfigMap>::all(client.clone()), ours)
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = map.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    finalizer(&maps, "side-by-side.example.com/cleanup", map, |event| async {
        match event {
            Event::Apply(map) => println!("prepared {}", map.name_any()),
            Event::Cleanup(map) => println!("cleaned up {}", map.name_any()),
        }
        Ok(Action::await_change())
    })
    .await
}

fn on_error(_: Arc<ConfigMap>, error: &Error, _: Arc<Client>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}
