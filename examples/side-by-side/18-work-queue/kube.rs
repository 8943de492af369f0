// A controller by hand: kube-rs has no work queue of its own, so this is its `Controller`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{reflector::ObjectRef, watcher};
use kube::{Api, Client, ResourceExt};

#[derive(Debug, thiserror::Error)]
#[error("it has no colour")]
struct NoColour;

type Failures = Mutex<HashMap<ObjectRef<ConfigMap>, u32>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let maps = Api::<ConfigMap>::all(client);
    Controller::new(maps, watcher::Config::default().labels("app=side-by-side"))
        .shutdown_on_signal()
        .run(sync, on_error, Arc::new(Failures::default()))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn sync(map: Arc<ConfigMap>, failures: Arc<Failures>) -> Result<Action, NoColour> {
    let colour = map.data.as_ref().and_then(|data| data.get("colour")).ok_or(NoColour)?;
    println!("{}/{} is {colour}", map.namespace().unwrap_or_default(), map.name_any());
    failures.lock().unwrap().remove(&ObjectRef::from_obj(&*map));
    Ok(Action::await_change())
}

fn on_error(map: Arc<ConfigMap>, error: &NoColour, failures: Arc<Failures>) -> Action {
    let mut failures = failures.lock().unwrap();
    let count = failures.entry(ObjectRef::from_obj(&*map)).or_default();
    *count += 1;
    if *count <= 5 {
        return Action::requeue(Duration::from_millis(5 << *count));
    }
    println!("dropped {}/{}: {error}", map.namespace().unwrap_or_default(), map.name_any());
    failures.remove(&ObjectRef::from_obj(&*map));
    Action::await_change()
}
