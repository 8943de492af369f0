//! Priority queue: order, and absence of starvation.

use std::cmp::Reverse;
use std::time::Duration;

use kubewright_workqueue::limiter::{ItemFastSlow, item_default};
use kubewright_workqueue::{AddOptions, Ageing, LOW_PRIORITY, PriorityQueue, QueueOptions};
use proptest::{collection::vec, prelude::*};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn queue<T: Clone + Eq + std::hash::Hash + Send + 'static>() -> PriorityQueue<T> {
    PriorityQueue::new(item_default(), Ageing::default(), QueueOptions::new())
}

async fn all_keys<T: Clone + Eq + std::hash::Hash + Send + 'static>(queue: &PriorityQueue<T>) -> Vec<T> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        keys.push(queue.get().await.expect("a key waits").key().clone());
    }
    keys
}

fn at(priority: i32) -> AddOptions {
    AddOptions::new().priority(priority)
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_are_delivered_first_and_equal_ones_in_order() {
    let queue = queue();
    for (key, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -7)] {
        queue.add_with(key, at(priority));
    }
    assert_eq!(all_keys(&queue).await, ["b", "d", "a", "c", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_list_waits_for_changes_but_not_for_ever() {
    let queue = queue();
    queue.add_initial(0);
    let start = Instant::now();
    // One change every 100 ms and a worker that takes as long: without ageing the listed key would
    // starve.
    for change in 1.. {
        queue.add(change);
        let claim = queue.get().await.unwrap();
        if *claim == 0 {
            assert_eq!(claim.priority(), LOW_PRIORITY);
            break;
        }
        sleep(SECOND / 10).await;
    }
    assert_eq!(start.elapsed(), 10 * SECOND + SECOND / 10);
}

#[tokio::test(start_paused = true)]
async fn a_second_add_raises_the_priority_and_never_lowers_it() {
    let queue = queue();
    queue.add_with("a", at(1));
    queue.add_with("b", at(2));
    queue.add_with("a", at(3));
    queue.add_with("a", at(0));
    assert_eq!(queue.view(9).waiting[0].priority, 3);
    assert_eq!(all_keys(&queue).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_priority_of_a_queued_key_can_be_raised_and_lowered() {
    let queue = queue();
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key));
    assert!(queue.set_priority(&"c", 1));
    assert!(queue.set_priority(&"a", -1));
    assert!(!queue.set_priority(&"unknown", 1));
    assert_eq!(all_keys(&queue).await, ["c", "b", "a"]);
    assert!(!queue.set_priority(&"a", 1));
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_processing_keeps_its_new_priority() {
    let queue = queue();
    queue.add_with("a", at(50));
    let claim = queue.get().await.unwrap();
    assert!(!queue.set_priority(&"a", 9), "it is in work and does not wait");
    queue.add_with("a", at(-5));
    queue.add("b");
    drop(claim);
    assert_eq!(all_keys(&queue).await, ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_and_delay_both_apply() {
    let limiter = ItemFastSlow::new(2 * SECOND, 2 * SECOND, 1);
    let queue = PriorityQueue::new(limiter, Ageing::default(), QueueOptions::new());
    let start = Instant::now();
    for (key, delay) in [("shorter", SECOND), ("longer", 3 * SECOND)] {
        queue.add_with(key, at(7).after(delay).rate_limited());
    }
    assert_eq!(queue.num_requeues(&"longer"), 1);
    for (key, delay) in [("shorter", 2 * SECOND), ("longer", 3 * SECOND)] {
        let claim = queue.get().await.unwrap();
        assert_eq!((*claim, claim.priority(), start.elapsed()), (key, 7, delay));
    }
    queue.forget(&"longer");
    assert_eq!(queue.num_requeues(&"longer"), 0);
}

// WQ-7
#[tokio::test(start_paused = true)]
async fn it_drains_like_any_queue() {
    let queue = queue();
    queue.add_initial("foo");
    queue.add_after("late", SECOND);
    let claim = queue.get().await.unwrap();
    queue.add("foo");
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    sleep(SECOND / 2).await;
    assert!(!drain.is_finished());
    drop(claim);
    assert_eq!(queue.get().await.map(|claim| *claim), Some("foo"));
    timeout(SECOND, drain).await.unwrap().unwrap();
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn priorities_decide_within_a_group() {
    let options = QueueOptions::new().fair_by(|&(group, _): &(char, u8)| group);
    let queue = PriorityQueue::new(item_default(), Ageing::default(), options);
    for (key, priority) in [(('a', 1), 0), (('a', 2), 9), (('a', 3), 5), (('b', 1), -50)] {
        queue.add_with(key, at(priority));
    }
    assert!(queue.set_priority(&('a', 1), 10));
    assert_eq!(all_keys(&queue).await, [('a', 1), ('b', 1), ('a', 2), ('a', 3)]);
}

#[derive(Clone, Debug)]
enum Step {
    Add { key: u8, priority: i32 },
    SetPriority { key: u8, priority: i32 },
    Get,
    Pass { milliseconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let priority = || prop_oneof![Just(LOW_PRIORITY), -3..4i32, Just(i32::MAX), Just(i32::MIN)];
    prop_oneof![
        8 => (0..30u8, priority()).prop_map(|(key, priority)| Step::Add { key, priority }),
        2 => (0..30u8, priority()).prop_map(|(key, priority)| Step::SetPriority { key, priority }),
        5 => Just(Step::Get),
        4 => (0..2000u64).prop_map(|milliseconds| Step::Pass { milliseconds }),
    ]
}

/// A waiting key of the model: key, priority, milliseconds of arrival, order of arrival.
type Waiting = (u8, i32, u64, usize);

proptest! {
    #[test]
    fn every_history_follows_priority_and_waits_are_bounded(steps in vec(step(), 0..200)) {
        const STEP: i128 = 100;
        const LIMIT: i128 = 3000;
        let head_start = |priority: i32| (i128::from(priority) * STEP).clamp(-LIMIT, LIMIT);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ageing = Ageing::default().step(Duration::from_millis(100)).limit(Duration::from_millis(3000));
            let queue = PriorityQueue::new(item_default(), ageing, QueueOptions::new());
            let mut now = 0;
            let mut arrivals = 0;
            let mut model: Vec<Waiting> = Vec::new();
            for step in steps {
                match step {
                    Step::Add { key, priority } => {
                        queue.add_with(key, at(priority));
                        match model.iter_mut().find(|waiting| waiting.0 == key) {
                            Some(waiting) => waiting.1 = waiting.1.max(priority),
                            None => {
                                arrivals += 1;
                                model.push((key, priority, now, arrivals));
                            }
                        }
                    }
                    Step::SetPriority { key, priority } => {
                        let waiting = model.iter_mut().find(|waiting| waiting.0 == key);
                        assert_eq!(queue.set_priority(&key, priority), waiting.is_some());
                        if let Some(waiting) = waiting {
                            waiting.1 = priority;
                        }
                    }
                    Step::Get => {
                        let Ok(claim) = timeout(Duration::ZERO, queue.get()).await else {
                            assert!(model.is_empty());
                            continue;
                        };
                        let claim = claim.unwrap();
                        let next = *model
                            .iter()
                            .min_by_key(|&&(_, priority, since, arrival)| {
                                (i128::from(since) - head_start(priority), Reverse(priority), arrival)
                            })
                            .unwrap();
                        assert_eq!((*claim, claim.priority()), (next.0, next.1));
                        model.retain(|waiting| waiting.0 != next.0);
                        // The bound: a key is never overtaken by one added more than twice the
                        // limit later.
                        for &(_, priority, since, _) in &model {
                            let later = i128::from(next.2) - i128::from(since);
                            assert!(later <= head_start(next.1) - head_start(priority) && later <= 2 * LIMIT);
                        }
                    }
                    Step::Pass { milliseconds } => {
                        sleep(Duration::from_millis(milliseconds)).await;
                        now += milliseconds;
                    }
                }
                assert_eq!(queue.len(), model.len());
            }
        });
    }

    #[test]
    fn under_any_load_of_urgent_keys_a_low_one_is_next_in_bounded_time(priorities in vec(-100..101i32, 400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            queue.add_with(usize::MAX, at(-100));
            let start = Instant::now();
            for (key, priority) in priorities.into_iter().enumerate() {
                queue.add_with(key, at(priority));
                if *queue.get().await.unwrap() == usize::MAX {
                    return assert!(start.elapsed() <= 20 * SECOND + SECOND / 10);
                }
                sleep(SECOND / 10).await;
            }
            panic!("the low key waited for 40 seconds");
        });
    }
}
