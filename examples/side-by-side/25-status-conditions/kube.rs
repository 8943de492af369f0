// Sets the condition Ready of each Site.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[kube(group = "side-by-side.example.com", version = "v1", kind = "Site", namespaced)]
#[kube(status = "SiteStatus")]
struct SiteSpec {
    url: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
struct SiteStatus {
    conditions: Vec<Condition>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(site: Arc<Site>, client: Arc<Client>) -> kube::Result<Action> {
    let is_secure = site.spec.url.starts_with("https://");
    let mut ready = Condition {
        type_: "Ready".into(),
        status: if is_secure { "True" } else { "False" }.into(),
        reason: if is_secure { "Secure" } else { "Insecure" }.into(),
        message: String::new(),
        observed_generation: site.metadata.generation,
        last_transition_time: Time(Timestamp::now()),
    };
    let mut conditions = site.status.clone().unwrap_or_default().conditions;
    if let Some(old) = conditions.iter().find(|old| old.type_ == ready.type_)
        && old.status == ready.status
    {
        ready.last_transition_time = old.last_transition_time.clone();
        if *old == ready {
            return Ok(Action::await_change());
        }
    }
    conditions.retain(|old| old.type_ != ready.type_);
    conditions.push(ready);
    let namespace = site.namespace().unwrap_or_default();
    let sites = Api::<Site>::namespaced((*client).clone(), &namespace);
    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    sites.patch_status(&site.name_any(), &PatchParams::default(), &patch).await?;
    println!("{} is ready: {is_secure}", site.name_any());
    Ok(Action::await_change())
}

fn on_error(_: Arc<Site>, error: &kube::Error, _: Arc<Client>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}
