// Publishes an event about a config map.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let client = Client::try_default().await?;
    let map = Api::<ConfigMap>::namespaced(client.clone(), "default").get("side-by-side").await?;
    let reporter =
        Reporter { controller: "side-by-side".into(), instance: Some("side-by-side-0".into()) };
    let event = Event {
        type_: EventType::Normal,
        reason: "Checked".into(),
        note: Some("all values are valid".into()),
        action: "Check".into(),
        secondary: None,
    };
    Recorder::new(client, reporter).publish(&event, &map.object_ref(&())).await
}
