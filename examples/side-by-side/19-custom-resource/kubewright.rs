// Installs a custom resource, creates an object of it and sets its status.

use kubewright::options::Patch;
use kubewright::runtime::custom::{CustomResource, install};
use kubewright::{Client, Object, json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "side-by-side.example.com", version = "v1", kind = "Widget", namespaced)]
#[resource(status = WidgetStatus)]
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
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    install(&client, &Widget::definition(), "side-by-side").await?;

    let widgets = client.api::<Widget>("default");
    let spec = WidgetSpec { image: "nginx:1.29".into(), replicas: 2 };
    let widget = widgets.create(&Widget::new("side-by-side", spec)).await?;
    let patch = Patch::merge(json!({ "status": { "phase": "Ready" } }));
    let widget = widgets.patch_status(widget.name(), patch).await?;
    println!("{:?}", widget.status.map(|status| status.phase));
    Ok(())
}
