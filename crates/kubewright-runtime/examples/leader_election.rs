//! One leader among several processes, as in client-go's example.
//!
//! Run it twice with different identities, end the first, and see the second take over:
//! `cargo run -p kubewright-runtime --example leader_election -- host-1`
//!
//! Arguments: the identity, and optionally the seconds that a lease lasts (60 by default).

use std::time::Duration;

use kubewright_client::Client;
use kubewright_runtime::election::{LeaderCallbacks, LeaderElectionOptions};
use kubewright_runtime::{LeaderElector, shutdown_on_signals};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let identity = arguments.next().ok_or("an identity is needed, which no other process has")?;
    let lease = arguments.next().map_or(Ok(60.0), |text| text.parse::<f64>())?;
    let options = LeaderElectionOptions::default()
        .lease_duration(Duration::from_secs_f64(lease))
        .renew_deadline(Duration::from_secs_f64(lease / 2.0))
        .retry_period(Duration::from_secs_f64(lease / 12.0));

    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let elector = LeaderElector::new(&client, "default", "example", identity.as_str(), options)?;
    let callbacks = LeaderCallbacks::new(
        |stop| async move {
            println!("started leading");
            stop.cancelled().await;
        },
        || println!("stopped leading"),
    )
    .on_new_leader(|leader| println!("new leader: {leader}"));
    elector.run(callbacks, &shutdown).await?;
    Ok(())
}
