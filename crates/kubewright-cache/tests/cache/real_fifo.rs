//! RealFifo against client-go's cases and against a model.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kubewright_cache::{QueueClosed, RealFifo, RealFifoOptions, ReflectorStore, Store};
use kubewright_core::DynamicObject;
use proptest::{collection::vec, prelude::*};
use tokio::time::timeout;

use crate::support::{all_shown, now, object, objects};

fn queue() -> RealFifo<DynamicObject> {
    RealFifo::new(RealFifoOptions::default())
}

fn item_by_item(known: &str) -> RealFifo<DynamicObject> {
    let store = Store::default();
    store.replace(objects(known), "1");
    RealFifo::new(RealFifoOptions::default().known_objects(store).item_by_item())
}

fn pop(queue: &RealFifo<DynamicObject>) -> String {
    now(queue.pop(|deltas, _| all_shown(&deltas))).unwrap()
}

fn drain(queue: &RealFifo<DynamicObject>) -> Vec<String> {
    std::iter::from_fn(|| (!queue.is_empty()).then(|| pop(queue))).collect()
}

fn play(queue: &RealFifo<DynamicObject>, script: &str) {
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let mut list = if verb == "bookmark" { Vec::new() } else { objects(rest) };
        match verb {
            "add" => queue.add(list.remove(0)).unwrap(),
            "update" => queue.update(list.remove(0)).unwrap(),
            "delete" => queue.delete(list.remove(0)).unwrap(),
            "replace" => assert!(queue.replace(list, "7").is_empty()),
            "resync" => queue.resync(),
            "bookmark" => queue.bookmark(rest),
            "pop" => drop(pop(queue)),
            other => panic!("unknown step {other}"),
        }
    }
}

// RF-1, RF-2, RF-4, RF-5, RF-6, RF-8: the popped batches.
#[test]
fn popped_deltas_match_the_queued_changes() {
    let cases: &[(&str, &[&str])] = &[
        // TestRealFIFO_enqueueingNoLister: deletions are never swallowed.
        (
            "add foo@10; update bar@15; delete gone@17; add baz@18; delete baz@20",
            &["Added foo@10, Updated bar@15, Deleted gone@17, Added baz@18", "Deleted baz@20"],
        ),
        // A repeated key closes a batch.
        ("add a@1; add b@2; update a@3; add c@4", &["Added a@1, Added b@2", "Updated a@3, Added c@4"]),
        // _ReplaceAtomic: base, with a queued add, several in order, a bookmark not merged.
        ("replace a@1 b@2", &["ReplacedAll a@1 b@2 at 7"]),
        (
            "add a@1; replace b@2; replace c@3; bookmark 9; add d@10",
            &["Added a@1", "ReplacedAll b@2 at 7", "ReplacedAll c@3 at 7", "Bookmark 9", "Added d@10"],
        ),
        // _ResyncAtomic
        ("add a@1; resync; resync", &["Added a@1", "SyncAll", "SyncAll"]),
        ("replace", &["ReplacedAll  at 7"]),
    ];
    for (script, expected) in cases {
        let queue = queue();
        play(&queue, script);
        assert_eq!(drain(&queue), *expected, "{script}");
    }
}

// RF-3, RF-5: tombstones come first, those of queued objects before those of known ones.
#[test]
fn item_by_item_a_list_is_taken_apart() {
    for (known, script, expected) in [
        ("foo@5 bar@6", "add baz@10; replace foo@5", "Added baz@10 | Gone baz@10, Gone bar@6, Replaced foo@5"),
        ("foo@5 baz@7", "delete baz@10; replace foo@5", "Deleted baz@10, Replaced foo@5"),
        ("bar@6", "update bar@8; replace", "Updated bar@8 | Gone bar@8"),
        ("foo@5", "resync; update foo@6; resync", "Sync foo@5 | Updated foo@6"),
        ("foo@5", "bookmark 9", ""),
    ] {
        let queue = item_by_item(known);
        play(&queue, script);
        assert_eq!(drain(&queue).join(" | "), expected, "{script}");
    }
}

// RF-6, RF-7: synced only when the last of the first list has been processed.
#[test]
fn when_it_has_synced() {
    for (script, expected) in [
        ("", false),
        ("add a@1", true),
        ("bookmark 3", false),
        ("replace", false),
        ("replace; pop", true),
        ("replace a@1 b@2", false),
        ("replace a@1 b@2; pop", true),
    ] {
        let queue = queue();
        play(&queue, script);
        assert_eq!(queue.has_synced(), expected, "{script}");
    }
    let queue = queue();
    play(&queue, "replace a@1");
    now(queue.pop(|_, is_in_initial_list| assert!(is_in_initial_list && !queue.has_synced()))).unwrap();
    assert!(queue.has_synced());
}

// RF-7: a queue syncs despite a panic in its consumer.
#[test]
fn a_panic_while_processing_counts_as_processed() {
    let queue = queue();
    play(&queue, "replace a@1");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| now(queue.pop(|_, _| panic!("no")))));
    assert!(panicked.is_err() && queue.has_synced());
}

// RF-8: Go's TestRealFIFO_PopMultipleDeltaInBatch, sizes.
#[test]
fn a_batch_has_a_thousand_at_most_and_stops_at_the_end_of_the_first_list() {
    let queue = queue();
    (0..2500).for_each(|at| queue.add(object(&format!("o{at}"), at)).unwrap());
    let sizes: Vec<usize> = (0..3).map(|_| now(queue.pop(|deltas, _| deltas.len())).unwrap()).collect();
    assert_eq!(sizes, [1000, 1000, 500]);
    let queue = item_by_item("");
    play(&queue, "replace a@1 b@2; add c@3");
    assert_eq!(drain(&queue), ["Replaced a@1, Replaced b@2", "Added c@3"]);
}

// RF-9: a faster reflector waits for space (backpressure).
#[tokio::test(start_paused = true)]
async fn a_full_queue_applies_backpressure() {
    let queue = queue();
    assert!(!queue.is_full());
    (0..2000).for_each(|at| queue.add(object(&format!("o{at}"), at)).unwrap());
    assert!(queue.is_full());
    assert!(timeout(Duration::from_secs(1), queue.room()).await.is_err());
    let (_, room) = tokio::join!(queue.pop(|_, _| ()), timeout(Duration::from_secs(1), queue.room()));
    assert!(room.is_ok());
}

// RF-1: Go's _PopShouldUnblockWhenClosed.
#[tokio::test(start_paused = true)]
async fn closing_wakes_waiting_callers() {
    let queue = queue();
    let (result, ()) = tokio::join!(queue.pop(|_, _| ()), async { queue.close() });
    assert_eq!(result, Err(QueueClosed));
    // RF-9
    let queue = self::queue();
    (0..2000).for_each(|at| queue.add(object(&format!("o{at}"), at)).unwrap());
    let (room, ()) = tokio::join!(timeout(Duration::from_secs(1), queue.room()), async { queue.close() });
    assert!(room.is_ok());
}

// DF-10: deltas queued before the queue is closed are popped, even if both happen concurrently.
#[test]
fn closing_frees_all_queued_objects() {
    let a = object("a", 1);
    let queues: Vec<_> = (0..30_000).map(|_| queue()).collect();
    let (turn, mut missed) = (AtomicUsize::new(0), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (at, queue) in queues.iter().enumerate() {
                while turn.load(Ordering::Acquire) < at {
                    std::hint::spin_loop();
                }
                queue.add(a.clone()).unwrap();
                queue.close();
            }
        });
        for (at, queue) in queues.iter().enumerate() {
            turn.store(at, Ordering::Release);
            let popped = loop {
                match pin!(queue.pop(|_, _| ())).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(result) => break result,
                    Poll::Pending => std::hint::spin_loop(),
                }
            };
            missed += usize::from(popped.is_err());
        }
    });
    assert_eq!(missed, 0);
}

// RF-10: popped objects are not kept alive.
#[test]
fn popped_objects_are_freed() {
    let queue = queue();
    let a = object("a", 1);
    queue.add(a.clone()).unwrap();
    queue.add(object("b", 1)).unwrap();
    now(queue.pop(|_, _| ())).unwrap();
    assert_eq!(Arc::strong_count(&a), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // RF-1, RF-8: deltas are popped in order, and no batch contains a key twice.
    #[test]
    fn changes_are_popped_in_order(steps in vec((0..5u8, 0..7u8), 0..100)) {
        let queue = queue();
        let (mut put, mut got) = (Vec::new(), Vec::new());
        let mut take = |queue: &RealFifo<DynamicObject>| now(queue.pop(|deltas, _| {
            let keys: std::collections::HashSet<_> = deltas.iter().filter_map(|delta| delta.key()).collect();
            assert_eq!(keys.len(), if deltas[0].key().is_some() { deltas.len() } else { 0 });
            assert!(deltas[0].key().is_some() || deltas.len() == 1);
            got.extend(deltas.iter().map(crate::support::shown));
        })).unwrap();
        for (version, &(name, what)) in steps.iter().enumerate() {
            let text = format!("o{name}@{version}");
            match what {
                0..2 => { play(&queue, &format!("add {text}")); put.push(format!("Added {text}")); }
                2 => { play(&queue, &format!("update {text}")); put.push(format!("Updated {text}")); }
                3 => { play(&queue, &format!("delete {text}")); put.push(format!("Deleted {text}")); }
                4 => { play(&queue, &format!("replace {text}")); put.push(format!("ReplacedAll {text} at 7")); }
                5 => { queue.resync(); put.push("SyncAll".to_owned()); }
                _ if !queue.is_empty() => take(&queue),
                _ => {}
            }
        }
        while !queue.is_empty() {
            take(&queue);
        }
        prop_assert_eq!(put, got);
    }
}
