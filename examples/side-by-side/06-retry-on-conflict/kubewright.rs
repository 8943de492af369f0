// Counts the runs of this program in a config map.

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::client::{RetryPolicy, retry_on_conflict};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let maps = Client::try_default().await?.api::<ConfigMap>("default");
    let updated = retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut map = maps.get("side-by-side").await?;
        let runs = map.data.get("runs").and_then(|runs| runs.parse().ok()).unwrap_or(0);
        map.data.insert("runs", (runs + 1).to_string().into());
        maps.update(&map).await
    })
    .await?;
    println!("{:?}", updated.data.get("runs"));
    Ok(())
}
