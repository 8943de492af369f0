//! Runs the concurrent core under shuttle, which explores many thread interleavings.
//!
//! The code under test is the shipped code: shuttle's mutex replaces the standard one, and a
//! simulated clock replaces tokio's.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p kubewright-workqueue --test interleavings`.
#![cfg(shuttle)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use std::time::Duration;

use kubewright_workqueue::clock::simulated::advance;
use kubewright_workqueue::{AddOptions, Ageing, DelayingQueue, PriorityQueue, QueueOptions, WorkQueue, limiter};
use shuttle::future::block_on;
use shuttle::thread;

const SCHEDULES: usize = 5_000;

/// Processes keys until the queue ends, and counts them; fails if two workers hold one key.
fn work(queue: &WorkQueue<usize>, in_work: &[AtomicBool], processed: &AtomicUsize) {
    while let Some(claim) = block_on(queue.get()) {
        assert!(!in_work[*claim].swap(true, Ordering::SeqCst));
        thread::yield_now();
        processed.fetch_add(1, Ordering::SeqCst);
        in_work[*claim].store(false, Ordering::SeqCst);
    }
}

/// Starts a worker that waits for one key and returns it.
fn spawn_get(queue: &WorkQueue<&'static str>) -> thread::JoinHandle<Option<&'static str>> {
    let queue = queue.clone();
    thread::spawn(move || block_on(queue.get()).map(|claim| *claim))
}

/// Polls `get` once and drops it, even if it was woken in between. A returned key is added again.
fn poll_once(queue: &WorkQueue<&'static str>) {
    let mut get = queue.get();
    let polled = Pin::new(&mut get).poll(&mut Context::from_waker(Waker::noop()));
    thread::yield_now();
    drop(get);
    if let Poll::Ready(Some(claim)) = polled {
        queue.add(*claim);
    }
}

// WQ-4, WQ-5, WQ-7: a lost wake-up deadlocks the schedule and fails the test.
#[test]
fn draining_ends_after_every_key_was_processed() {
    shuttle::check_random(
        || {
            let queue = WorkQueue::default();
            let in_work: Arc<[AtomicBool]> = (0..2).map(|_| AtomicBool::new(false)).collect();
            let processed = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let (queue, in_work, processed) = (queue.clone(), in_work.clone(), processed.clone());
                    thread::spawn(move || work(&queue, &in_work, &processed))
                })
                .collect();
            let producers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        queue.add(0);
                        queue.add_ref(&1);
                        queue.add_ref(&0);
                    })
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            block_on(queue.shut_down_with_drain());
            assert!((2..=6).contains(&processed.load(Ordering::SeqCst)));
            assert!(in_work.iter().all(|in_work| !in_work.load(Ordering::SeqCst)));
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        },
        SCHEDULES,
    );
}

// WQ-2, WQ-3: only added keys wake the workers here.
#[test]
fn every_key_wakes_a_worker() {
    shuttle::check_random(
        || {
            let queue = WorkQueue::default();
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let queue = queue.clone();
                    // A key of 10 or more stops a worker.
                    thread::spawn(move || while *block_on(queue.get()).unwrap() < 10 {})
                })
                .collect();
            let producer = thread::spawn({
                let queue = queue.clone();
                move || [0, 1, 10, 11].into_iter().for_each(|key| queue.add(key))
            });
            [1, 0, 12].into_iter().for_each(|key| queue.add(key));
            producer.join().unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        },
        SCHEDULES,
    );
}

#[test]
fn a_worker_that_gives_up_passes_its_wake_up_on() {
    shuttle::check_random(
        || {
            let queue = WorkQueue::default();
            let impatient = thread::spawn({
                let queue = queue.clone();
                move || poll_once(&queue)
            });
            let patient = spawn_get(&queue);
            queue.add("foo");
            impatient.join().unwrap();
            assert_eq!(patient.join().unwrap(), Some("foo"));
        },
        SCHEDULES,
    );
}

const SECOND: Duration = Duration::from_secs(1);

// WQ-9, WQ-11: only the clock wakes the workers here, and one worker holds the timer for all.
#[test]
fn every_delayed_key_is_delivered_at_its_deadline() {
    shuttle::check_random(
        || {
            let queue = DelayingQueue::new(QueueOptions::new());
            let workers: Vec<_> = (0..2).map(|_| spawn_get(&queue)).collect();
            let producer = thread::spawn({
                let queue = queue.clone();
                move || queue.add_after("late", 2 * SECOND)
            });
            queue.add_after("soon", SECOND);
            producer.join().unwrap();
            let clock = thread::spawn(|| {
                advance(SECOND);
                thread::yield_now();
                advance(SECOND);
            });
            let mut got: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap().unwrap()).collect();
            got.sort_unstable();
            assert_eq!(got, ["late", "soon"]);
            clock.join().unwrap();
        },
        SCHEDULES,
    );
}

// WQ-10: the earliest deadline wins, whatever the order of the adds, and the key is delivered once.
#[test]
fn of_several_delays_of_one_key_the_earliest_counts() {
    shuttle::check_random(
        || {
            let queue = DelayingQueue::new(QueueOptions::new());
            let worker = spawn_get(&queue);
            let producers: Vec<_> = [3, 1, 2]
                .into_iter()
                .map(|seconds| {
                    let queue = queue.clone();
                    thread::spawn(move || queue.add_after("foo", seconds * SECOND))
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            // The worker is woken by the first second alone.
            advance(SECOND);
            assert_eq!(worker.join().unwrap(), Some("foo"));
            advance(10 * SECOND);
            assert!(queue.is_empty(), "the later times are forgotten");
        },
        SCHEDULES,
    );
}

// WQ-10: a delay is independent of an immediate add of the same key, so the key is processed twice.
#[test]
fn a_delayed_key_that_is_added_is_delivered_immediately_and_at_its_deadline() {
    shuttle::check_random(
        || {
            let queue = DelayingQueue::new(QueueOptions::new());
            let in_work = Arc::new(AtomicBool::new(false));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, in_work) = (queue.clone(), in_work.clone());
                    thread::spawn(move || {
                        let mut count = 0;
                        while let Some(claim) = block_on(queue.get()) {
                            assert!(!in_work.swap(true, Ordering::SeqCst), "WQ-5");
                            thread::yield_now();
                            in_work.store(false, Ordering::SeqCst);
                            drop(claim);
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            let delayed = thread::spawn({
                let queue = queue.clone();
                move || queue.add_after("foo", SECOND)
            });
            queue.add("foo");
            delayed.join().unwrap();
            // A worker has taken the first add before the clock moves, so the delayed add is a
            // second one.
            while queue.len() > 0 {
                thread::yield_now();
            }
            advance(SECOND);
            block_on(queue.shut_down_with_drain());
            let count: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
            assert_eq!(count, 2);
        },
        SCHEDULES,
    );
}

// WQ-9, WQ-11: a shutdown drops delayed keys that are not due, and every waiting worker returns.
#[test]
fn a_shutdown_drops_delayed_keys_and_ends_all_waiting() {
    for drains in [false, true] {
        shuttle::check_random(
            move || {
                let queue = DelayingQueue::new(QueueOptions::new());
                let workers: Vec<_> = (0..2)
                    .map(|_| {
                        let queue = queue.clone();
                        thread::spawn(move || {
                            let mut got = Vec::new();
                            while let Some(claim) = block_on(queue.get()) {
                                got.push(*claim);
                            }
                            got
                        })
                    })
                    .collect();
                let producer = thread::spawn({
                    let queue = queue.clone();
                    move || {
                        queue.add_after("never", 3600 * SECOND);
                        queue.add_after("perhaps", SECOND);
                        queue.add_after("now", Duration::ZERO);
                    }
                });
                let clock = thread::spawn(|| advance(SECOND));
                if drains {
                    block_on(queue.shut_down_with_drain());
                } else {
                    queue.shut_down();
                }
                producer.join().unwrap();
                clock.join().unwrap();
                let got: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
                assert!(!got.contains(&"never") && got.iter().filter(|key| **key == "perhaps").count() <= 1, "{got:?}");
                queue.add_after("after", Duration::ZERO);
                queue.add_after("after", SECOND);
                advance(SECOND);
                assert!(queue.is_empty());
            },
            SCHEDULES / 2,
        );
    }
}

// WQ-11: when the timekeeper is dropped or takes a key, another worker becomes timekeeper.
#[test]
fn another_worker_takes_over_the_timer_when_one_is_cancelled() {
    shuttle::check_random(
        || {
            let queue = PriorityQueue::new(limiter::item_default(), Ageing::default(), QueueOptions::new());
            let impatient = thread::spawn({
                let queue = queue.clone();
                move || poll_once(&queue)
            });
            let patient = spawn_get(&queue);
            queue.add_with("foo", AddOptions::new().after(2 * SECOND));
            queue.add_with("foo", AddOptions::new().after(SECOND).priority(1));
            thread::yield_now();
            advance(SECOND);
            impatient.join().unwrap();
            assert_eq!(patient.join().unwrap(), Some("foo"));
        },
        SCHEDULES,
    );
}
