//! Fifo: client-go's cases, and comparison with a model.

use std::time::Duration;

use kubewright_cache::{Fifo, QueueClosed};
use kubewright_core::{DynamicObject, Object};
use proptest::{collection::vec, prelude::*};
use tokio::time::timeout;

use crate::support::{named, now, object, objects};

fn pop(queue: &Fifo<DynamicObject>) -> String {
    now(queue.pop(|object, _| named([&object]).remove(0))).unwrap()
}

// FQ-1: Go's TestFIFO_addUpdate, _detectLineJumpers and _addReplace.
#[test]
fn an_update_keeps_its_position_and_a_later_add_is_appended() {
    let queue = Fifo::<DynamicObject>::new();
    objects("foo@10 bar@1 foo@11 foo@13 zab@30").into_iter().for_each(|object| queue.add(object));
    assert_eq!(pop(&queue), "foo@13");
    queue.add(object("foo", 14));
    assert_eq!([pop(&queue), pop(&queue), pop(&queue)], ["bar@1", "zab@30", "foo@14"]);
    queue.add(object("foo", 15));
    queue.replace([]);
    assert!(queue.list().is_empty());
    queue.replace(objects("bar@16"));
    assert_eq!(pop(&queue), "bar@16");
}

// FQ-1
#[test]
fn pop_skips_deleted_items_and_add_if_not_present_keeps_the_queued_one() {
    let queue = Fifo::<DynamicObject>::new();
    objects("a@1 b@1").into_iter().for_each(|object| queue.add(object));
    queue.add_if_not_present(object("b", 2));
    queue.delete(&object("a", 1));
    assert_eq!(queue.get(&object("b", 0)).unwrap().resource_version(), "1");
    assert_eq!(pop(&queue), "b@1");
    assert!(queue.list_keys().is_empty());
}

// FQ-1: Go's TestFIFO_HasSynced.
#[test]
fn when_it_has_synced() {
    type Step = fn(&Fifo<DynamicObject>);
    let cases: [(&[Step], bool); 6] = [
        (&[], false),
        (&[|q| q.add(object("a", 1))], true),
        (&[|q| q.replace([])], true),
        (&[|q| q.replace(objects("a@1 b@2"))], false),
        (&[|q| q.replace(objects("a@1 b@2")), |q| drop(pop(q))], false),
        (&[|q| q.replace(objects("a@1 b@2")), |q| drop(pop(q)), |q| drop(pop(q))], true),
    ];
    for (at, (steps, expected)) in cases.into_iter().enumerate() {
        let queue = Fifo::<DynamicObject>::new();
        steps.iter().for_each(|step| step(&queue));
        assert_eq!(queue.has_synced(), expected, "case {at}");
    }
}

// FQ-1: Go's TestFIFO_PopShouldUnblockWhenClosed.
#[tokio::test(start_paused = true)]
async fn closing_wakes_waiting_callers() {
    let queue = Fifo::<DynamicObject>::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.pop(|_, _| ()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for task in waiting {
        assert_eq!(timeout(Duration::from_secs(1), task).await.unwrap().unwrap(), Err(QueueClosed));
    }
    assert!(queue.is_closed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // FQ-1: against a list of names and newest versions.
    #[test]
    fn it_agrees_with_a_model(steps in vec((0..8u8, 0..5u8), 0..60)) {
        let queue = Fifo::<DynamicObject>::new();
        let mut model: Vec<(String, usize)> = Vec::new();
        for (version, &(name, what)) in steps.iter().enumerate() {
            let name = format!("o{name}");
            let position = model.iter().position(|(other, _)| *other == name);
            match (what, position) {
                (0 | 1, position) => {
                    queue.add(object(&name, version));
                    match position {
                        Some(at) => model[at].1 = version,
                        None => model.push((name, version)),
                    }
                }
                // A key that is added after a deletion may keep its old position, so this test does
                // not check the order of those.
                (2, None) => queue.delete(&object(&name, version)),
                (2, Some(_)) => {}
                (3, _) if !model.is_empty() => {
                    let (name, version) = model.remove(0);
                    prop_assert_eq!(pop(&queue), format!("{name}@{version}"));
                }
                _ => queue.resync(),
            }
            prop_assert_eq!(queue.list().len(), model.len());
        }
    }
}
