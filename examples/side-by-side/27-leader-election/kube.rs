// Works only in the one process that holds the lease.
//
// kube-rs has no leader election. This is the crate kube-leader-election, which builds on kube 4.

use std::time::Duration;

use kube_leader_election::{LeaseLock, LeaseLockParams, LeaseLockResult};
use tokio::signal::ctrl_c;
use tokio::time::{interval, timeout};

const TTL: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = kube::Client::try_default().await?;
    let hostname = std::env::var("HOSTNAME").unwrap_or_default();
    let params = LeaseLockParams {
        holder_id: format!("{hostname}-{}", std::process::id()),
        lease_name: "side-by-side".into(),
        lease_ttl: TTL,
    };
    let lock = LeaseLock::new(client, "default", params);
    let mut ticks = interval(Duration::from_secs(1));
    let mut shutdown = std::pin::pin!(ctrl_c());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            result = &mut shutdown => break result?,
        }
        // A renewal that hangs must not outlast the lease.
        match timeout(TTL / 3, lock.try_acquire_or_renew()).await {
            Ok(Ok(LeaseLockResult::Acquired(_))) => println!("leading"),
            Ok(Ok(LeaseLockResult::NotAcquired(_))) => {}
            Ok(Err(error)) => eprintln!("{error}"),
            Err(_) => eprintln!("the renewal takes too long"),
        }
    }
    lock.step_down().await?;
    Ok(())
}
