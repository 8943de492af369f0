// Publishes an event about a config map.

use std::time::Duration;

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::runtime::events::{EventApi, EventBroadcaster};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let map = client.api::<ConfigMap>("default").get("side-by-side").await?;
    let broadcaster = EventBroadcaster::start(&client, Default::default());
    let recorder = broadcaster.recorder("side-by-side", "side-by-side-0", EventApi::Events);
    recorder.normal(&map, "Checked", "all values are valid");
    broadcaster.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
