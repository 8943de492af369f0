//! Progress of cache synchronisation.

use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use tokio::time::{Instant, sleep};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Log interval.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until all caches have synced. Logs the missing ones with reasons every second. Cancel
/// safe.
pub async fn until_synced(factory: &SharedInformerFactory) {
    let start = Instant::now();
    let mut told = start;
    loop {
        sleep(POLL_INTERVAL).await;
        let informers = factory.informers();
        let objects: usize = informers.iter().map(|informer| informer.objects).sum();
        let synced = informers.iter().filter(|informer| informer.has_synced).count();
        if synced == informers.len() && synced > 0 {
            tracing::info!(informers = synced, objects, after = ?start.elapsed(), "caches are complete");
            return;
        }
        if told.elapsed() >= LOG_INTERVAL {
            told = Instant::now();
            let missing: Vec<String> = factory.unsynced().iter().map(ToString::to_string).collect();
            let missing = missing.join(", ");
            tracing::info!(synced, of = informers.len(), objects, missing, "caches are being filled");
        }
    }
}
