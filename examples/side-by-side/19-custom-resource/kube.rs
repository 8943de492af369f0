// Installs a custom resource, creates an object of it and sets its status.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[kube(group = "side-by-side.example.com", version = "v1", kind = "Widget", namespaced)]
#[kube(status = "WidgetStatus")]
struct WidgetSpec {
    image: String,
    #[schemars(range(min = 0, max = 10))]
    replicas: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
struct WidgetStatus {
    phase: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let manager = PatchParams::apply("side-by-side");
    definitions.patch(Widget::crd_name(), &manager, &Patch::Apply(Widget::crd())).await?;
    let established =
        await_condition(definitions, Widget::crd_name(), conditions::is_crd_established());
    timeout(Duration::from_secs(30), established).await??;

    let widgets = Api::<Widget>::namespaced(client, "default");
    let spec = WidgetSpec { image: "nginx:1.29".into(), replicas: 2 };
    let widget = widgets.create(&PostParams::default(), &Widget::new("side-by-side", spec)).await?;
    let patch = Patch::Merge(json!({ "status": { "phase": "Ready" } }));
    let widget = widgets.patch_status(&widget.name_any(), &PatchParams::default(), &patch).await?;
    println!("{:?}", widget.status.map(|status| status.phase));
    Ok(())
}
