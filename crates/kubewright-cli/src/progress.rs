//! How far caches have come.

use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use tokio::time::{Instant, sleep};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is told.
const TELL: Duration = Duration::from_secs(1);

/// Waits until all caches are complete, and tells each second which are not, and why. Cancel safe.
pub async fn until_synced(factory: &SharedInformerFactory) {
    let start = Instant::now();
    let mut told = start;
    loop {
        sleep(LOOK).await;
        let informers = factory.informers();
        let objects: usize = informers.iter().map(|informer| informer.objects).sum();
        let synced = informers.iter().filter(|informer| informer.has_synced).count();
        if synced == informers.len() && synced > 0 {
            tracing::info!(informers = synced, objects, after = ?start.elapsed(), "caches are complete");
            return;
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            let missing: Vec<String> = factory.unsynced().iter().map(ToString::to_string).collect();
            let missing = missing.join(", ");
            tracing::info!(synced, of = informers.len(), objects, missing, "caches are being filled");
        }
    }
}
