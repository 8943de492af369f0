//! A server and a client, and small helpers.

use std::time::Duration;

use kubewright_apiserver::{ApiServer, RunningServer};
use tokio::time::{sleep, timeout};

pub async fn server() -> RunningServer {
    ApiServer::in_memory().start().await.expect("a server in memory needs nothing")
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Waits until something holds, and fails if it does not within ten minutes of simulated time.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_secs(600), waiting).await.is_ok(), "never: {what}");
}
