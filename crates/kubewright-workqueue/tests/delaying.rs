//! Delays and rate limits, in simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use kubewright_workqueue::limiter::{ItemExponential, ItemFastSlow};
use kubewright_workqueue::{DelayingQueue, QueueOptions, RateLimitingQueue};
use proptest::{collection::vec, prelude::*};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

const MS: Duration = Duration::from_millis(1);

// WQ-9, WQ-11: Go's TestSimpleQueue.
#[tokio::test(start_paused = true)]
async fn a_key_is_delivered_after_its_delay_and_not_before() {
    let queue = DelayingQueue::default();
    let start = Instant::now();
    queue.add_after("foo", 50 * MS);
    assert_eq!(queue.len(), 0);
    assert_eq!(queue.get().await.map(|claim| *claim), Some("foo"));
    assert_eq!(start.elapsed(), 50 * MS);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(queue.len(), 0);
}

// WQ-9
#[tokio::test(start_paused = true)]
async fn no_delay_adds_at_once() {
    let queue = DelayingQueue::default();
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

// WQ-10: Go's TestDeduping, as first delay, second delay, when it fires.
#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_counts() {
    for (first, second, fires) in [(50, 70, 50), (50, 30, 30)] {
        let queue = DelayingQueue::default();
        queue.add_after("foo", first * MS);
        queue.add_after("foo", second * MS);
        let start = Instant::now();
        queue.get().await.unwrap().done();
        assert_eq!(start.elapsed(), fires * MS);
        sleep(100 * MS).await;
        assert_eq!((queue.len(), queue.view(9).delayed_count), (0, 0));
    }
}

// WQ-10
#[tokio::test(start_paused = true)]
async fn an_add_does_not_use_up_the_delay() {
    let queue = DelayingQueue::default();
    queue.add_after("foo", 50 * MS);
    queue.add("foo");
    assert_eq!(queue.len(), 1);
    queue.get().await.unwrap().done();
    assert_eq!(queue.len(), 0);
    sleep(50 * MS).await;
    assert_eq!(queue.len(), 1);
}

// WQ-4, WQ-5
#[tokio::test(start_paused = true)]
async fn a_delay_that_expires_during_processing_requeues_the_key() {
    let queue = DelayingQueue::default();
    queue.add("foo");
    let claim = queue.get().await.unwrap();
    queue.add_after("foo", 50 * MS);
    sleep(60 * MS).await;
    assert_eq!(queue.len(), 0);
    drop(claim);
    assert_eq!(queue.len(), 1);
}

// WQ-11: Go's TestAddTwoFireEarly and TestCopyShifting.
#[tokio::test(start_paused = true)]
async fn keys_are_delivered_in_deadline_order() {
    let queue = DelayingQueue::default();
    for (key, delay) in [("first", 1000), ("second", 500), ("third", 250), ("fourth", 500)] {
        queue.add_after(key, delay * MS);
    }
    sleep(300 * MS).await;
    assert_eq!(queue.len(), 1);
    sleep(1700 * MS).await;
    queue.add("last");
    for expected in ["third", "second", "fourth", "first", "last"] {
        assert_eq!(queue.get().await.map(|claim| *claim), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sooner_deadline_wakes_the_worker_sooner() {
    let queue = DelayingQueue::default();
    let start = Instant::now();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.map(|claim| (*claim, start.elapsed())) })
        })
        .collect();
    for (key, delay) in [(1, 3000), (2, 2000), (3, 1000)] {
        queue.add_after(key, delay * MS);
        sleep(MS).await;
    }
    let mut got = Vec::new();
    for worker in workers {
        got.push(worker.await.unwrap().unwrap());
    }
    got.sort_by_key(|&(_, at)| at);
    assert_eq!(got, [(3, 1002 * MS), (2, 2001 * MS), (1, 3000 * MS)]);
}

#[tokio::test(start_paused = true)]
async fn another_worker_takes_over_the_timer_of_a_cancelled_one() {
    let queue = DelayingQueue::default();
    queue.add_after("foo", 1000 * MS);
    let waits = |queue: DelayingQueue<&'static str>| async move { queue.get().await.map(|claim| *claim) };
    let first = tokio::spawn(waits(queue.clone()));
    sleep(MS).await;
    let second = tokio::spawn(waits(queue.clone()));
    sleep(MS).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(timeout(1000 * MS, second).await.unwrap().unwrap(), Some("foo"));
}

// WQ-7, WQ-11
#[tokio::test(start_paused = true)]
async fn shutdown_drops_delayed_keys() {
    let queue = DelayingQueue::default();
    queue.add_after("late", 5000 * MS);
    queue.add_after("due", MS);
    sleep(2 * MS).await;
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await.map(|claim| *claim), queue.get().await.is_none()) }
    });
    queue.shut_down_with_drain().await;
    queue.add_after("later", MS);
    assert_eq!(worker.await.unwrap(), (Some("due"), true));
    assert_eq!(queue.view(9).delayed_count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_million_delayed_keys_are_delivered_in_order() {
    let queue = DelayingQueue::default();
    for key in 0..1_000_000u64 {
        queue.add_after(key, Duration::from_millis(1 + key * 7919 % 1_000_003));
    }
    assert_eq!(queue.view(3).delayed_count, 1_000_000);
    sleep(Duration::from_millis(1_000_004)).await;
    assert_eq!(queue.len(), 1_000_000);
    let mut last = 0;
    for _ in 0..1_000_000 {
        let key = *queue.get().await.unwrap();
        let deadline = 1 + key * 7919 % 1_000_003;
        assert!(last <= deadline);
        last = deadline;
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_possible_delay_is_accepted() {
    let queue = DelayingQueue::default();
    queue.add_after("never", Duration::MAX);
    assert!(timeout(Duration::from_secs(400 * 24 * 3600), queue.get()).await.is_err());
    assert_eq!(queue.view(1).delayed_count, 1);
}

// WQ-12: Go's TestRateLimitingQueue.
#[tokio::test(start_paused = true)]
async fn the_limiter_decides_the_delay() {
    let queue = RateLimitingQueue::new(ItemExponential::new(MS, Duration::from_secs(1)), QueueOptions::new());
    let delayed = |key: &'static str| {
        queue.add_rate_limited(key);
        queue
            .view(9)
            .delayed
            .into_iter()
            .find(|delayed| delayed.key == key)
            .map(|delayed| delayed.until - Instant::now())
    };
    assert_eq!(delayed("one"), Some(MS));
    assert_eq!(delayed("two"), Some(MS));
    // The second and third are later than the first, which counts.
    assert_eq!(delayed("one"), Some(MS));
    assert_eq!(queue.num_requeues(&"one"), 2);
    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    assert_eq!(delayed("one"), Some(4 * MS));
    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    assert_eq!(delayed("one"), Some(MS));
}

// WQ-12
#[tokio::test(start_paused = true)]
async fn forgetting_does_not_end_the_claim() {
    let queue = RateLimitingQueue::new(ItemFastSlow::new(MS, MS, 1), QueueOptions::new());
    queue.add("foo");
    let claim = queue.get().await.unwrap();
    queue.forget(&claim);
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    let view = queue.view(9);
    assert!(view.processing[0].is_dirty);
    drop(claim);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_view_shows_waiting_times_and_retries() {
    let queue = RateLimitingQueue::new(ItemFastSlow::new(3000 * MS, MS, 9), QueueOptions::new().name("pods"));
    let start = Instant::now();
    queue.add("working");
    let _claim = queue.get().await.unwrap();
    sleep(MS).await;
    queue.add("waiting");
    queue.add_rate_limited("failed");
    queue.add_rate_limited("failed");
    queue.add_after("soon", MS / 2);
    sleep(MS).await;
    let view = queue.view(9);
    assert_eq!((view.name.as_str(), view.waiting_count, view.delayed_count, view.processing_count), ("pods", 2, 1, 1));
    let waiting: Vec<_> = view.waiting.iter().map(|waiting| (waiting.key, waiting.since.unwrap() - start)).collect();
    assert_eq!(waiting, [("waiting", MS), ("soon", MS + MS / 2)]);
    assert_eq!((view.processing[0].key, view.processing[0].since), ("working", Some(start)));
    let delayed = &view.delayed[0];
    assert_eq!((delayed.key, delayed.until - start, delayed.retries), ("failed", 3001 * MS, 2));
    assert_eq!(queue.view(1).waiting.len(), 1);
}

proptest! {
    // WQ-12: delays and failure counts depend only on the failures since the key was last
    // forgotten.
    #[test]
    fn failures_are_counted_for_each_key_until_it_is_forgotten(steps in vec((0..3u8, 0..4u8), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = RateLimitingQueue::new(ItemExponential::new(MS, 50 * MS), QueueOptions::new());
            let mut failures: BTreeMap<u8, u32> = BTreeMap::new();
            for (step, key) in steps {
                let failed = failures.entry(key).or_default();
                match step {
                    0 => {
                        queue.forget(&key);
                        *failed = 0;
                    }
                    _ => {
                        let start = Instant::now();
                        queue.add_rate_limited(key);
                        assert_eq!(queue.get().await.map(|claim| *claim), Some(key));
                        assert_eq!(start.elapsed(), Duration::from_millis(1 << (*failed).min(6)).min(50 * MS));
                        *failed += 1;
                    }
                }
                for (key, &failed) in &failures {
                    assert_eq!(queue.num_requeues(key), failed);
                }
            }
        });
    }

    // WQ-9 to WQ-11: each firing is at the earliest of the deadlines set since the last one, to the
    // millisecond.
    #[test]
    fn every_key_fires_at_its_earliest_deadline(
        workers in 1..4usize,
        adds in vec((0..200u64, 0..6u8, 1..100u64), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let queue = DelayingQueue::default();
            let mut fired = JoinSet::new();
            for _ in 0..workers {
                let queue = queue.clone();
                fired.spawn(async move {
                    let mut fired = Vec::new();
                    while let Some(key) = queue.get().await {
                        fired.push((start.elapsed().as_millis() as u64, *key));
                    }
                    fired
                });
            }
            let mut adds = adds;
            adds.sort_unstable();
            let mut planned: BTreeMap<u8, u64> = BTreeMap::new();
            let mut expected = Vec::new();
            for (at, key, delay) in adds {
                // Adds happen at even milliseconds and deadlines at odd ones, so that they never
                // coincide.
                let (at, delay) = (at * 2, delay * 2 - 1);
                sleep_until(start + Duration::from_millis(at)).await;
                planned.retain(|&key, &mut deadline| {
                    let is_over = deadline <= at;
                    if is_over {
                        expected.push((deadline, key));
                    }
                    !is_over
                });
                queue.add_after(key, Duration::from_millis(delay));
                let planned = planned.entry(key).or_insert(at + delay);
                *planned = (at + delay).min(*planned);
            }
            sleep(Duration::from_secs(1)).await;
            expected.extend(planned.into_iter().map(|(key, deadline)| (deadline, key)));
            queue.shut_down();
            let mut fired: Vec<_> = fired.join_all().await.into_iter().flatten().collect();
            fired.sort_unstable();
            expected.sort_unstable();
            assert_eq!(fired, expected);
        });
    }
}
