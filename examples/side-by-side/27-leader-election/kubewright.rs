// Works only in the one process that holds the lease.

use std::time::Duration;

use kubewright::Client;
use kubewright::runtime::election::unique_identity;
use kubewright::runtime::{LeaderElector, shutdown_on_signals};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let identity = unique_identity();
    let mut elector =
        LeaderElector::new(&client, "default", "side-by-side", identity, Default::default())?;
    while let Some(leadership) = elector.acquire(&shutdown).await {
        let work = leadership.while_leading(async {
            loop {
                println!("leading");
                sleep(Duration::from_secs(1)).await;
            }
        });
        shutdown.run_until_cancelled(work).await;
        leadership.release().await;
    }
    Ok(())
}
