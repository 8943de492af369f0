//! The concurrent core under a scheduler that tries many interleavings of its threads.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p kubewright-workqueue --test interleavings`.
#![cfg(shuttle)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use kubewright_workqueue::WorkQueue;
use shuttle::future::block_on;
use shuttle::thread;

const SCHEDULES: usize = 5_000;

/// Works until the queue ends, and counts; fails if two workers have one key.
fn work(queue: &WorkQueue<usize>, in_work: &[AtomicBool], processed: &AtomicUsize) {
    while let Some(claim) = block_on(queue.get()) {
        assert!(!in_work[*claim].swap(true, Ordering::SeqCst));
        thread::yield_now();
        processed.fetch_add(1, Ordering::SeqCst);
        in_work[*claim].store(false, Ordering::SeqCst);
    }
}

// WQ-4, WQ-5, WQ-7: where a wake-up is lost, a schedule ends in a deadlock and the test fails.
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

// WQ-2, WQ-3: nothing but the keys themselves wakes the workers here.
#[test]
fn every_key_wakes_a_worker() {
    shuttle::check_random(
        || {
            let queue = WorkQueue::default();
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let queue = queue.clone();
                    // Keys from 10 on send a worker home.
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
                move || {
                    let mut get = queue.get();
                    let asked = Pin::new(&mut get).poll(&mut Context::from_waker(Waker::noop()));
                    // Woken or not, it asks no more; what it got it gives back.
                    thread::yield_now();
                    drop(get);
                    if let Poll::Ready(Some(claim)) = asked {
                        queue.add(*claim);
                    }
                }
            });
            let patient = thread::spawn({
                let queue = queue.clone();
                move || block_on(queue.get()).map(|claim| *claim)
            });
            queue.add("foo");
            impatient.join().unwrap();
            assert_eq!(patient.join().unwrap(), Some("foo"));
        },
        SCHEDULES,
    );
}
