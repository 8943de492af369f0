// Sets the condition Ready of each Site.

use kubewright::meta::v1::Condition;
use kubewright::options::Patch;
use kubewright::runtime::condition::set_status_condition;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::{BoxError, Manager, Outcome, shutdown_on_signals};
use kubewright::{Client, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "side-by-side.example.com", version = "v1", kind = "Site", namespaced)]
#[resource(status = SiteStatus)]
struct SiteSpec {
    url: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
struct SiteStatus {
    conditions: Vec<Condition>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, Default::default());
    let controller = manager.controller::<Site>("sites");
    manager.add(controller.reconciling(|site, context| async move {
        let is_secure = site.spec.url.starts_with("https://");
        let ready = Condition {
            type_: "Ready".into(),
            status: if is_secure { "True" } else { "False" }.into(),
            reason: if is_secure { "Secure" } else { "Insecure" }.into(),
            observed_generation: site.metadata.generation,
            ..Default::default()
        };
        let mut new = (*site).clone();
        if set_status_condition(&mut new.status.get_or_insert_default().conditions, ready) {
            let sites = context.api::<Site>(site.namespace());
            sites.patch_status(site.name(), Patch::merge_from(&*site, &new)?).await?;
            println!("{} is ready: {is_secure}", site.name());
        }
        Ok(Outcome::Done)
    }))?;
    Ok(manager.run(&shutdown).await?)
}
