//! Soak test: 64 producers and 64 consumers on real threads lose no key and never share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kubewright_workqueue::{DelayingQueue, QueueOptions};
use tokio::task::{JoinSet, yield_now};

const KEYS: usize = 200;
const ROUNDS: u64 = 10_000;

/// Desired version of a key, the version last processed, and whether a worker is processing it.
#[derive(Default)]
struct Object {
    wanted: AtomicU64,
    seen: AtomicU64,
    in_work: AtomicBool,
}

// WQ-4, WQ-5, WQ-7
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_key_is_processed_after_its_last_add_and_by_one_worker_at_a_time() {
    let queue = DelayingQueue::<usize>::new(QueueOptions::new());
    let objects: Arc<Vec<Object>> = Arc::new((0..KEYS).map(|_| Object::default()).collect());
    let mut consumers = JoinSet::new();
    for consumer in 0..64 {
        let (queue, objects) = (queue.clone(), objects.clone());
        consumers.spawn(async move {
            loop {
                // Consumers time out at different intervals, so that `get` is cancelled at every
                // possible point.
                let claim = match tokio::time::timeout(Duration::from_micros(50 + consumer * 40), queue.get()).await {
                    Ok(Some(claim)) => claim,
                    Ok(None) => break,
                    Err(_) => continue,
                };
                let object: &Object = &objects[*claim];
                assert!(!object.in_work.swap(true, Ordering::SeqCst), "two workers on one key");
                let wanted = object.wanted.load(Ordering::SeqCst);
                yield_now().await;
                object.seen.fetch_max(wanted, Ordering::SeqCst);
                object.in_work.store(false, Ordering::SeqCst);
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..64usize {
        let (queue, objects) = (queue.clone(), objects.clone());
        producers.spawn(async move {
            for round in 0..ROUNDS {
                let key = (producer * 31 + round as usize * 17) % KEYS;
                objects[key].wanted.fetch_add(1, Ordering::SeqCst);
                if round % 5 == 0 {
                    queue.add_after(key, Duration::from_micros(round % 400 * 10));
                } else {
                    queue.add(key);
                }
                if round % 16 == 0 {
                    yield_now().await;
                }
            }
        });
    }
    producers.join_all().await;
    while queue.view(0).delayed_count > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    queue.shut_down_with_drain().await;
    for (key, object) in objects.iter().enumerate() {
        let (wanted, seen) = (object.wanted.load(Ordering::SeqCst), object.seen.load(Ordering::SeqCst));
        assert_eq!(seen, wanted, "key {key} was not processed after its last add");
    }
    consumers.join_all().await;
}
