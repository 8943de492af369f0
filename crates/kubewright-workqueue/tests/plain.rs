//! The plain queue: client-go's cases, and comparison with a model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_workqueue::{Claim, QueueOptions, WorkQueue};
use proptest::{collection::vec, prelude::*};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

/// The next key, which must be available.
async fn next<T: Clone + Eq + std::hash::Hash + Send + 'static>(queue: &WorkQueue<T>) -> Claim<'_, T> {
    timeout(Duration::ZERO, queue.get()).await.expect("a key waits").expect("the queue is open")
}

async fn has_nothing(queue: &WorkQueue<&'static str>) -> bool {
    timeout(Duration::ZERO, queue.get()).await.is_err()
}

// WQ-2, WQ-5: Go's TestBasic.
#[tokio::test(start_paused = true)]
async fn fifty_producers_and_ten_consumers_never_share_a_key() {
    let queue = WorkQueue::new(QueueOptions::new());
    let in_work = Arc::new((0..50).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
    let mut producers = JoinSet::new();
    for key in 0..50usize {
        let queue = queue.clone();
        producers.spawn(async move {
            for _ in 0..50 {
                queue.add(key);
                sleep(Duration::from_millis(1)).await;
            }
        });
    }
    let mut consumers = JoinSet::new();
    for _ in 0..10 {
        let (queue, in_work) = (queue.clone(), in_work.clone());
        consumers.spawn(async move {
            while let Some(key) = queue.get().await {
                assert_eq!(in_work[*key].fetch_add(1, Ordering::SeqCst), 0);
                sleep(Duration::from_millis(3)).await;
                in_work[*key].fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    producers.join_all().await;
    queue.shut_down();
    queue.add(1);
    consumers.join_all().await;
    assert_eq!(queue.len(), 0);
}

// WQ-3
#[tokio::test]
async fn keys_are_delivered_in_fifo_order() {
    let queue = WorkQueue::default();
    (0..1000).rev().for_each(|key| queue.add(key));
    for expected in (0..1000).rev() {
        assert_eq!(*next(&queue).await, expected);
    }
}

// WQ-4, WQ-6: Go's TestAddWhileProcessing, TestReinsert and TestLen.
#[tokio::test(start_paused = true)]
async fn a_key_added_during_processing_is_requeued_once() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let claim = next(&queue).await;
    queue.add("foo");
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    claim.done();
    assert_eq!(queue.len(), 1);
    next(&queue).await.done();
    assert_eq!(queue.len(), 0);
    assert!(has_nothing(&queue).await);
}

// WQ-2: Go's TestCollapse.
#[tokio::test(start_paused = true)]
async fn a_key_added_while_queued_keeps_its_position() {
    let queue = WorkQueue::default();
    ["bar", "foo", "bar"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 2);
    assert_eq!(*next(&queue).await, "bar");
    assert_eq!(*next(&queue).await, "foo");
    assert!(has_nothing(&queue).await);
}

// WQ-4, WQ-5: Go's TestCollapseWhileProcessing.
#[tokio::test(start_paused = true)]
async fn another_worker_waits_until_the_first_is_done() {
    let queue = WorkQueue::default();
    queue.add("bar");
    let claim = next(&queue).await;
    queue.add("bar");
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|claim| *claim) }
    });
    yield_now().await;
    assert!(!other.is_finished());
    drop(claim);
    assert_eq!(other.await.unwrap(), Some("bar"));
}

// WQ-4
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_worker_ends_its_claim() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let worker = queue.clone();
    let failed = tokio::spawn(async move {
        let _claim = worker.get().await;
        worker.add("foo");
        panic!("on purpose");
    });
    assert!(failed.await.unwrap_err().is_panic());
    assert_eq!(*next(&queue).await, "foo");
}

#[tokio::test(start_paused = true)]
async fn a_key_taken_out_of_its_claim_is_done_by_name() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let key = next(&queue).await.into_key();
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    queue.done(&"other");
    queue.done(&key);
    let claim = next(&queue).await;
    // A stale claim does not end the claim of the next worker.
    queue.done(&key);
    queue.add("foo");
    let second = next(&queue).await;
    drop(claim);
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    drop(second);
    assert_eq!(queue.len(), 1);
}

/// Counts how often it was cloned.
#[derive(Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Counted {}

impl std::hash::Hash for Counted {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

// WQ-2
#[tokio::test(start_paused = true)]
async fn a_key_added_by_reference_is_cloned_only_if_it_is_not_known() {
    let (queue, key) = (WorkQueue::default(), Counted::default());
    (0..5).for_each(|_| queue.add_ref(&key));
    assert_eq!((queue.len(), key.0.load(Ordering::SeqCst)), (1, 1));
    let claim = next(&queue).await;
    let clones = key.0.load(Ordering::SeqCst);
    (0..5).for_each(|_| queue.add_ref(&key));
    drop(claim);
    assert_eq!((queue.len(), key.0.load(Ordering::SeqCst)), (1, clones));
    queue.shut_down();
    queue.add_ref(&Counted::default());
    assert_eq!(queue.len(), 1);
}

// WQ-4
#[tokio::test(start_paused = true)]
async fn an_owned_claim_outlives_every_handle() {
    let (queue, key) = (WorkQueue::default(), Arc::new("foo"));
    queue.add(key.clone());
    let claim = next(&queue).await.into_owned();
    assert_eq!(queue.view(1).processing_count, 1);
    drop(queue);
    assert_eq!(tokio::spawn(async move { **claim }).await.unwrap(), "foo");
    assert_eq!(Arc::strong_count(&key), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owned_claim_is_done_when_it_is_dropped() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let claim = next(&queue).await.into_owned();
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    drop(claim);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_a_name_shows_the_order_and_no_times() {
    let queue = WorkQueue::default();
    ["a", "b", "c", "d", "e"].into_iter().for_each(|key| queue.add(key));
    let (_a, _b) = (next(&queue).await, next(&queue).await);
    sleep(Duration::from_secs(1)).await;
    let view = queue.view(2);
    assert_eq!(
        view.waiting.iter().map(|waiting| (waiting.key, waiting.since)).collect::<Vec<_>>(),
        [("c", None), ("d", None)]
    );
    let processing: Vec<_> = view.processing.iter().map(|processing| (processing.key, processing.since)).collect();
    assert_eq!(processing, [("a", None), ("b", None)]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_get_wakes_another_worker() {
    let queue = WorkQueue::default();
    let mut first = tokio_test_task(&queue);
    let mut second = tokio_test_task(&queue);
    assert!(poll(&mut first).await.is_none() && poll(&mut second).await.is_none());
    // Wakes one of the two workers; if that one is dropped, the other must get the key.
    queue.add("foo");
    drop(second);
    assert_eq!(timeout(Duration::ZERO, first).await.unwrap(), Some("foo"));
}

type Pinned<'a> = std::pin::Pin<Box<dyn Future<Output = Option<&'static str>> + 'a>>;

fn tokio_test_task<'a>(queue: &'a WorkQueue<&'static str>) -> Pinned<'a> {
    Box::pin(async { queue.get().await.map(|claim| *claim) })
}

async fn poll(future: &mut Pinned<'_>) -> Option<Option<&'static str>> {
    timeout(Duration::ZERO, future).await.ok()
}

// WQ-3, WQ-7
#[tokio::test(start_paused = true)]
async fn keys_queued_at_shutdown_are_still_delivered() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.shut_down();
    assert!(queue.is_shutting_down());
    queue.add("bar");
    assert_eq!(queue.get().await.map(|claim| *claim), Some("foo"));
    assert!(queue.get().await.is_none());
}

// WQ-7
#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_waiting_of_all_workers() {
    let queue: WorkQueue<u32> = WorkQueue::default();
    let mut workers = JoinSet::new();
    (0..10).for_each(|_| {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.is_none() });
    });
    yield_now().await;
    queue.shut_down();
    assert!(workers.join_all().await.into_iter().all(|ended| ended));
}

// WQ-7: client-go's drain tests, plus queued keys and keys added again, which those do not cover.
#[tokio::test(start_paused = true)]
async fn draining_waits_for_queued_processing_and_dirty_keys() {
    let queue = WorkQueue::default();
    ["foo", "bar"].into_iter().for_each(|key| queue.add(key));
    let foo = next(&queue).await;
    queue.add("foo");
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    sleep(Duration::from_secs(60)).await;
    queue.add("late");
    let bar = next(&queue).await;
    assert_eq!(*bar, "bar");
    drop(bar);
    // No key is queued, but `foo` will be: `get` must not return `None` to the other worker yet.
    assert!(has_nothing(&queue).await);
    drop(foo);
    sleep(Duration::from_secs(60)).await;
    assert!(!drain.is_finished());
    let again = next(&queue).await;
    assert_eq!(*again, "foo");
    assert!(queue.get().await.is_none());
    assert!(!drain.is_finished());
    drop(again);
    drain.await.unwrap();
}

// WQ-7
#[tokio::test(start_paused = true)]
async fn draining_an_idle_queue_returns_immediately() {
    let queue: WorkQueue<u32> = WorkQueue::default();
    timeout(Duration::ZERO, queue.shut_down_with_drain()).await.unwrap();
    timeout(Duration::ZERO, queue.shut_down_with_drain()).await.unwrap();
    assert!(queue.get().await.is_none());
}

// WQ-7: Go's TestQueueDrainageUsingShutDownWithDrainWithDirtyItem and its neighbours.
#[tokio::test(start_paused = true)]
async fn a_later_shutdown_ends_the_draining() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let claim = next(&queue).await;
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    sleep(Duration::from_secs(60)).await;
    assert!(!drain.is_finished());
    queue.shut_down();
    drain.await.unwrap();
    drop(claim);
}

// WQ-13: Go's TestGarbageCollection.
#[tokio::test(start_paused = true)]
async fn the_queue_keeps_no_finished_key() {
    let queue = WorkQueue::default();
    let key = Arc::new("foo");
    queue.add(key.clone());
    next(&queue).await.done();
    assert_eq!(Arc::strong_count(&key), 1);
}

#[tokio::test(start_paused = true)]
async fn groups_take_turns() {
    let queue = WorkQueue::new(
        QueueOptions::new().fair_by(|key: &&str| key.split_once('/').map(|(group, _)| group.to_owned())),
    );
    ["a/1", "a/2", "a/3", "a/4", "b/1", "c/1", "c/2"].into_iter().for_each(|key| queue.add(key));
    let mut order = Vec::new();
    while !queue.is_empty() {
        order.push(*next(&queue).await);
    }
    assert_eq!(order, ["a/1", "b/1", "c/1", "a/2", "c/2", "a/3", "a/4"]);
}

/// The model: three sets and an order.
#[derive(Default)]
struct Model {
    queue: VecDeque<u8>,
    dirty: BTreeSet<u8>,
    processing: BTreeSet<u8>,
    is_shutting_down: bool,
}

impl Model {
    fn add(&mut self, key: u8) {
        if !self.is_shutting_down && self.dirty.insert(key) && !self.processing.contains(&key) {
            self.queue.push_back(key);
        }
    }

    fn get(&mut self) -> Option<u8> {
        let key = self.queue.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key);
        Some(key)
    }

    fn done(&mut self, key: u8) {
        self.processing.remove(&key);
        if self.dirty.contains(&key) {
            self.queue.push_back(key);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddRef(u8),
    Get,
    Done(usize),
    DoneByName(u8),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..12u8).prop_map(Step::Add),
        20 => (0..12u8).prop_map(Step::AddRef),
        30 => Just(Step::Get),
        20 => any::<usize>().prop_map(Step::Done),
        5 => (0..12u8).prop_map(Step::DoneByName),
        1 => Just(Step::ShutDown),
    ]
}

proptest! {
    // WQ-1 to WQ-7
    #[test]
    fn every_history_agrees_with_the_three_sets(steps in vec(step(), 0..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = WorkQueue::default();
            let mut model = Model::default();
            let mut claims: BTreeMap<u8, Claim<'_, u8>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Add(key) => {
                        queue.add(key);
                        model.add(key);
                    }
                    Step::AddRef(key) => {
                        queue.add_ref(&key);
                        model.add(key);
                    }
                    Step::Get => {
                        let got = timeout(Duration::ZERO, queue.get()).await;
                        match model.get() {
                            Some(expected) => {
                                let claim = got.unwrap().unwrap();
                                assert_eq!(*claim, expected);
                                claims.insert(expected, claim);
                            }
                            None => assert_eq!(got.is_ok(), model.is_shutting_down),
                        }
                    }
                    Step::Done(which) => {
                        if let Some(&key) = claims.keys().nth(which % claims.len().max(1)) {
                            claims.remove(&key);
                            model.done(key);
                        }
                    }
                    Step::DoneByName(key) => {
                        queue.done(&key);
                        if claims.remove(&key).is_some() {
                            model.done(key);
                        }
                    }
                    Step::ShutDown => {
                        queue.shut_down();
                        model.is_shutting_down = true;
                    }
                }
                assert_eq!(queue.len(), model.queue.len());
                assert_eq!(queue.view(99).processing_count, model.processing.len());
            }
        });
    }

    #[test]
    fn a_group_never_has_two_turns_while_another_waits(keys in vec((0..5u8, 0..40u8), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = WorkQueue::new(QueueOptions::new().fair_by(|&(group, _): &(u8, u8)| group));
            keys.iter().for_each(|&key| queue.add(key));
            let mut waiting: BTreeMap<u8, VecDeque<u8>> = BTreeMap::new();
            let mut seen = BTreeSet::new();
            for (group, key) in keys.into_iter().filter(|&key| seen.insert(key)) {
                waiting.entry(group).or_default().push_back(key);
            }
            let mut since_turn: BTreeMap<u8, usize> = BTreeMap::new();
            while !queue.is_empty() {
                let (group, key) = *next(&queue).await;
                assert_eq!(waiting.get_mut(&group).unwrap().pop_front(), Some(key));
                waiting.retain(|_, keys| !keys.is_empty());
                since_turn.insert(group, 0);
                for other in waiting.keys().filter(|&&other| other != group) {
                    let turns = since_turn.entry(*other).or_default();
                    *turns += 1;
                    assert!(*turns < 5);
                }
            }
            assert!(waiting.is_empty());
        });
    }
}
