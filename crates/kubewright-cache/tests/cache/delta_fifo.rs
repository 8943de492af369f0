//! DeltaFifo: client-go's cases, and its invariants over random histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_cache::{Deleted, Delta, DeltaFifo, DeltaFifoOptions, Queue, QueueClosed, Store};
use kubewright_core::{DynamicObject, Object, ObjectKey};
use proptest::{collection::vec, prelude::*};

use crate::support::{all_shown, key, now, object, objects};

fn queue() -> DeltaFifo<DynamicObject> {
    DeltaFifo::new(DeltaFifoOptions::default())
}

/// With a consumer that has these objects.
fn knowing(known: &str) -> DeltaFifo<DynamicObject> {
    let store = Store::default();
    store.replace(objects(known), "1");
    DeltaFifo::new(DeltaFifoOptions::default().known_objects(store))
}

// The type of the queue is inferred from the store.
#[test]
fn known_objects_determine_the_type_of_a_queue() {
    let store = Store::<DynamicObject>::default();
    let queue = DeltaFifo::new(DeltaFifoOptions::default().known_objects(store));
    queue.close();
    assert_eq!(now(queue.pop(|_, _| ())), Err(QueueClosed));
}

fn pop(queue: &DeltaFifo<DynamicObject>) -> String {
    now(queue.pop(|deltas, _| all_shown(&deltas))).unwrap()
}

/// All popped deltas, sorted where the order is unspecified.
fn drain(queue: &DeltaFifo<DynamicObject>) -> Vec<String> {
    let mut all: Vec<String> = (0..Queue::len(queue)).map(|_| pop(queue)).collect();
    all.sort();
    all
}

/// Runs steps such as `add a@1`, `delete a@2`, `replace a@1 b@2`, `resync`.
fn play(queue: &DeltaFifo<DynamicObject>, script: &str) {
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let mut list = objects(rest);
        match verb {
            "add" => queue.add(list.remove(0)).unwrap(),
            "update" => queue.update(list.remove(0)).unwrap(),
            "delete" => queue.delete(list.remove(0)).unwrap(),
            "replace" => assert!(queue.replace(list).is_empty()),
            "resync" => queue.resync(),
            "pop" => drop(pop(queue)),
            other => panic!("unknown step {other}"),
        }
    }
}

// DF-2, DF-3, DF-4, DF-5, DF-6, DF-9: Go's scripts as data.
#[test]
fn popped_deltas_match_the_queued_changes() {
    let cases: &[(&str, Option<&str>, &[&str])] = &[
        // TestDeltaFIFO_replaceWithDeleteDeltaIn
        ("delete foo@1; replace foo@2", Some("foo@1"), &["Deleted foo@1, Sync foo@2"]),
        // TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue
        ("add foo@1; replace", None, &["Added foo@1, Gone foo@1"]),
        ("add foo@1; replace", Some(""), &["Added foo@1, Gone foo@1"]),
        ("add foo@1; replace foo@2; replace", None, &["Added foo@1, Sync foo@2, Gone foo@2"]),
        ("add foo@1; delete foo@2; replace", None, &["Added foo@1, Deleted foo@2"]),
        ("replace foo@1; replace foo@1; replace", None, &["Sync foo@1, Sync foo@1, Gone foo@1"]),
        ("add foo@1; replace; replace", None, &["Added foo@1, Gone foo@1"]),
        ("add foo@1; delete foo@1; add foo@2; replace", None, &["Added foo@1, Deleted foo@1, Added foo@2, Gone foo@2"]),
        // TestDeltaFIFO_addUpdate
        ("add foo@10; update foo@12; delete foo@15", None, &["Added foo@10, Updated foo@12, Deleted foo@15"]),
        // _enqueueingNoLister: the deletion of an unknown object is ignored.
        (
            "add foo@10; update bar@15; delete gone@17; add baz@18; delete baz@20",
            None,
            &["Added baz@18, Deleted baz@20", "Added foo@10", "Updated bar@15"],
        ),
        // _enqueueingWithLister
        (
            "add foo@10; update bar@15; delete baz@20",
            Some("foo@5 bar@6 baz@7"),
            &["Added foo@10", "Deleted baz@20", "Updated bar@15"],
        ),
        // _addReplace
        ("add foo@10; replace foo@15; delete foo@16; replace", None, &["Added foo@10, Sync foo@15, Deleted foo@16"]),
        // _ResyncNonExisting, _Resync, _UpdateResyncRace
        ("delete foo@10; resync", Some("foo@5"), &["Deleted foo@10"]),
        ("resync", Some("foo@5"), &["Sync foo@5"]),
        ("update foo@6; resync", Some("foo@5"), &["Updated foo@6"]),
        ("resync", None, &[]),
        // _DeleteExistingNonPropagated
        ("add foo@10; delete foo@12", Some(""), &["Added foo@10, Deleted foo@12"]),
        // _ReplaceMakesDeletions
        ("delete baz@10; replace foo@5", Some("foo@5 bar@6 baz@7"), &["Deleted baz@10", "Gone bar@6", "Sync foo@5"]),
        ("add baz@10; replace foo@5", Some("foo@5 bar@6"), &["Added baz@10, Gone baz@10", "Gone bar@6", "Sync foo@5"]),
        (
            "add baz@10; delete baz@11; replace foo@5",
            Some("foo@5 bar@6"),
            &["Added baz@10, Deleted baz@11", "Gone bar@6", "Sync foo@5"],
        ),
        // The tombstone has the newest queued state.
        ("update bar@8; replace foo@5", Some("foo@5 bar@6"), &["Sync foo@5", "Updated bar@8, Gone bar@8"]),
        ("replace foo@5", None, &["Sync foo@5"]),
        // Of two observed deletions the first stays; nothing else is merged.
        ("delete foo@10; delete foo@12", Some("foo@5"), &["Deleted foo@10"]),
        ("update foo@6; update foo@7; resync", Some("foo@5"), &["Updated foo@6, Updated foo@7"]),
    ];
    for (script, known, expected) in cases {
        let queue = known.map_or_else(queue, knowing);
        play(&queue, script);
        assert_eq!(drain(&queue), *expected, "{script} with {known:?}");
    }
}

// DF-3: of two deletions the one with the final state stays.
#[test]
fn an_observed_deletion_replaces_a_tombstone() {
    let queue = knowing("foo@1");
    play(&queue, "replace; delete foo@9");
    assert_eq!(drain(&queue), ["Deleted foo@9"]);
}

// DF-5: Go's _ReplaceMakesDeletionsReplaced and _ReplaceDeltaType.
#[test]
fn lists_give_replaced_where_that_was_chosen() {
    let store = Store::default();
    store.replace(objects("foo@5 bar@6"), "1");
    let queue = DeltaFifo::new(DeltaFifoOptions::default().known_objects(store).emit_replaced());
    play(&queue, "replace foo@5; resync");
    assert_eq!(drain(&queue), ["Gone bar@6", "Replaced foo@5"]);
}

// DF-7: Go's TestDeltaFIFO_HasSynced.
#[test]
fn when_it_has_synced() {
    for (script, expected) in [
        ("", false),
        ("add a@1", true),
        ("update a@1", true),
        ("delete a@1", true),
        ("replace", true),
        ("replace a@1 b@2", false),
        ("replace a@1 b@2; pop", false),
        ("replace a@1 b@2; pop; pop", true),
        ("replace a@1 a@2; pop", true),
    ] {
        let queue = queue();
        play(&queue, script);
        assert_eq!(queue.has_synced(), expected, "{script}");
    }
}

// DF-7, DF-8: Go's _HasSyncedCorrectOnDeletion.
#[test]
fn tombstones_count_towards_sync_and_are_of_the_first_list() {
    let queue = knowing("foo@5 bar@6 baz@7");
    play(&queue, "replace foo@5");
    for _ in 0..3 {
        assert!(!queue.has_synced());
        assert!(now(queue.pop(|_, is_in_initial_list| is_in_initial_list)).unwrap());
    }
    assert!(queue.has_synced());
    play(&queue, "add foo@9");
    assert!(!now(queue.pop(|_, is_in_initial_list| is_in_initial_list)).unwrap());
}

// DF-2: Go's _detectLineJumpers.
#[test]
fn a_key_added_after_its_pop_goes_to_the_end() {
    let queue = queue();
    play(&queue, "add foo@10; add bar@1; add foo@11; add foo@13; add zab@30");
    assert_eq!(pop(&queue), "Added foo@10, Added foo@11, Added foo@13");
    play(&queue, "add foo@14");
    assert_eq!([pop(&queue), pop(&queue), pop(&queue)], ["Added bar@1", "Added zab@30", "Added foo@14"]);
}

// DF-10
#[test]
fn a_closed_queue_is_emptied_first() {
    let queue = queue();
    play(&queue, "add foo@10");
    queue.close();
    assert_eq!(pop(&queue), "Added foo@10");
    assert_eq!(now(queue.pop(|_, _| ())), Err(QueueClosed));
}

// DF-10: deltas being processed are no longer in the queue, and return only if they are put back.
#[test]
fn popped_deltas_leave_the_queue_even_if_processing_fails() {
    let queue = queue();
    play(&queue, "add foo@10; add bar@11");
    let failed: Result<(), &str> = now(queue.pop(|_, _| Err("no"))).unwrap();
    assert!(failed.is_err());
    assert_eq!(drain(&queue), ["Added bar@11"]);
    play(&queue, "add foo@10");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| now(queue.pop(|_, _| panic!("no")))));
    assert!(panicked.is_err() && Queue::len(&queue) == 0);
    play(&queue, "add foo@12");
    assert_eq!(pop(&queue), "Added foo@12");
}

/// Counts log records.
struct Counting(Arc<AtomicUsize>);

impl tracing::Subscriber for Counting {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().contains("delta_fifo")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

// DF-12: slow processing with many queued keys is logged.
#[test]
fn slow_processing_is_logged_while_more_than_ten_wait() {
    let logged = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Counting(logged.clone()), || {
        for (waiting, takes, count) in [(12, 101, 1), (12, 0, 0), (11, 101, 0)] {
            let queue = queue();
            (0..waiting).for_each(|at| queue.add(object(&format!("o{at}"), at)).unwrap());
            now(queue.pop(|_, _| std::thread::sleep(Duration::from_millis(takes)))).unwrap();
            assert_eq!(logged.swap(0, Ordering::Relaxed), count, "{waiting} after {takes} ms");
        }
    });
}

// DF-11: Go's _transformer.
#[test]
fn each_object_is_transformed_once_and_tombstones_are_not() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let store = Store::default();
    store.replace(objects("old@1"), "1");
    let options =
        DeltaFifoOptions::default().known_objects(store).transform(Arc::new(move |mut object: DynamicObject| {
            counted.fetch_add(1, Ordering::Relaxed);
            if object.name() == "bad" {
                return Err("no such thing".into());
            }
            object.metadata.labels.insert("seen", "yes".into());
            Ok(object)
        }));
    let queue = DeltaFifo::new(options);
    play(&queue, "add a@1; update a@2; delete a@3; replace b@4; resync");
    assert_eq!(count.load(Ordering::Relaxed), 4);
    for object in queue.list() {
        assert_eq!(object.labels().get("seen").is_some(), object.name() != "old");
    }
    let error = queue.add(object("bad", 1)).unwrap_err();
    assert_eq!(error.to_string(), "cannot transform default/bad");
    assert_eq!(all_shown(&queue.get_by_key(&key("bad")).unwrap()), "Undecodable bad@1");
}

// DF-13: Go's _KeyOf.
#[test]
fn the_key_of_each_form() {
    let a = object("a", 1);
    assert_eq!(Delta::Added(a.clone()).key(), Some(key("a")));
    assert_eq!(Delta::Deleted(Deleted::Final(a)).key(), Some(key("a")));
    // ST-2: the key of a tombstone takes precedence over that of its object.
    let tombstone = Deleted::LastKnown { key: key("b"), object: Some(object("a", 1)) };
    assert_eq!(tombstone.key(), key("b"));
    assert_eq!(Delta::<DynamicObject>::SyncAll.key(), None);
}

// DF-2: Go's TestDeltaFIFO_basic.
#[tokio::test]
async fn deltas_of_each_producer_stay_in_order() {
    let queue = queue();
    for producer in ["a", "b"] {
        let queue = queue.clone();
        tokio::spawn(async move {
            for at in 0..500 {
                queue.add(object(&format!("{producer}{at}"), at)).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    let mut last = [None, None];
    for _ in 0..1000 {
        let object = queue.pop(|deltas, _| deltas[0].object().unwrap().clone()).await.unwrap();
        let version: u32 = object.resource_version().parse().unwrap();
        let producer = usize::from(object.name().starts_with('b'));
        assert!(last[producer] < Some(version));
        last[producer] = Some(version);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // DF-1, DF-5: for any history, a consumer that applies the popped deltas ends in the state of
    // the last list plus later changes.
    #[test]
    fn a_consumer_ends_where_the_producer_is(steps in vec((0..6u8, 0..8u8), 0..80)) {
        let store = Store::default();
        let queue = DeltaFifo::new(DeltaFifoOptions::default().known_objects(store.clone()));
        let mut model: std::collections::BTreeMap<ObjectKey, String> = Default::default();
        let consume = |queue: &DeltaFifo<DynamicObject>| {
            if Queue::len(queue) > 0 {
                now(queue.pop(|deltas, _| {
                    assert!(!deltas.is_empty());
                    store.transaction(|transaction| for delta in &deltas {
                        match delta {
                            Delta::Deleted(deleted) => drop(transaction.delete(deleted)),
                            other => drop(transaction.put(other.object().unwrap().clone())),
                        }
                    });
                })).unwrap();
            }
        };
        for (version, &(name, what)) in steps.iter().enumerate() {
            let name = format!("o{name}");
            match what {
                0 | 1 => {
                    queue.add(object(&name, version)).unwrap();
                    model.insert(key(&name), version.to_string());
                }
                2 | 3 => {
                    queue.delete(object(&name, version)).unwrap();
                    model.remove(&key(&name));
                }
                4 => {
                    assert!(queue.replace([object(&name, version)]).is_empty());
                    model = [(key(&name), version.to_string())].into();
                }
                5 => queue.resync(),
                _ => consume(&queue),
            }
            let mut keys = queue.list_keys();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), Queue::len(&queue));
        }
        while Queue::len(&queue) > 0 {
            consume(&queue);
        }
        let end: std::collections::BTreeMap<ObjectKey, String> =
            store.snapshot().iter().map(|object| (object.key(), object.resource_version().to_owned())).collect();
        prop_assert_eq!(end, model);
    }
}
