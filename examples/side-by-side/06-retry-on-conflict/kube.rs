// Counts the runs of this program in a config map.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, Error};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let maps = Api::<ConfigMap>::namespaced(Client::try_default().await?, "default");
    let mut attempts = 5;
    let updated = loop {
        let mut map = maps.get("side-by-side").await?;
        let data = map.data.get_or_insert_default();
        let runs = data.get("runs").and_then(|runs| runs.parse().ok()).unwrap_or(0);
        data.insert("runs".into(), (runs + 1).to_string());
        attempts -= 1;
        match maps.replace("side-by-side", &PostParams::default(), &map).await {
            Err(Error::Api(status)) if status.is_conflict() && attempts > 0 => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            result => break result?,
        }
    };
    println!("{:?}", updated.data.unwrap_or_default().get("runs"));
    Ok(())
}
