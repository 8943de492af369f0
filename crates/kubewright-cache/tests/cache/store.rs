//! Store: client-go's cases, and comparison with a plain map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubewright_cache::{Change, Deleted, Indexers, Query, Snapshot, Store};
use kubewright_core::{DynamicObject, Object, ObjectKey, Str};
use proptest::{collection::vec, prelude::*};

use crate::support::{key, labelled, named, object};

/// Values of the label `values`, separated by dots.
fn by_values() -> Indexers<DynamicObject> {
    Indexers::by_namespace().with("values", |object: &DynamicObject| {
        let text = object.labels().get("values").unwrap_or_default();
        text.split('.').filter(|value| !value.is_empty()).map(Str::from).collect::<Vec<_>>()
    })
}

fn valued(name: &str, version: u64, values: &str) -> Arc<DynamicObject> {
    labelled(name, version, &[("values", values)])
}

// ST-4, ST-5: Go's TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex and
// …AddKeepsNonEmptySetPostDeleteFromIndex.
#[test]
fn an_index_bucket_is_removed_with_its_last_object() {
    let store = Store::new(by_values());
    store.add(valued("a", 1, "x"));
    store.add(valued("b", 2, "x"));
    assert_eq!(store.list_index_func_values("values"), ["x"]);
    store.delete(object("a", 3));
    assert_eq!(store.index_keys("values", "x").unwrap(), [key("b")]);
    store.delete(object("b", 4));
    assert!(store.list_index_func_values("values").is_empty());
}

// ST-4, ST-8: Go's …IndexingFunctionsWithMultipleValues and TestMultiIndexKeys.
#[test]
fn an_object_is_found_under_each_of_its_values() {
    let store = Store::new(by_values());
    let keys = |value: &str| store.index_keys("values", value).unwrap();
    store.add(valued("one", 1, "foo"));
    store.add(valued("two", 2, "foo.bar"));
    store.add(valued("tre", 3, "foo.bar"));
    assert_eq!(keys("foo"), [key("one"), key("tre"), key("two")]);
    assert_eq!(keys("bar"), [key("tre"), key("two")]);
    store.update(valued("two", 4, "foo.baz"));
    assert_eq!(keys("bar"), [key("tre")]);
    assert_eq!(keys("baz"), [key("two")]);
    store.update(valued("one", 5, ""));
    assert_eq!(keys("foo"), [key("tre"), key("two")]);
    // The queried object need not be stored, and each match is returned once.
    assert_eq!(named(&store.index("values", &valued("x", 0, "foo.baz")).unwrap()), ["tre@3", "two@4"]);
}

// ST-7
#[test]
fn an_unknown_index_is_an_error_but_has_no_values() {
    let store = Store::<DynamicObject>::default();
    assert_eq!(store.by_index("nope", "x").unwrap_err().to_string(), "index with name nope does not exist");
    assert!(store.index_keys("nope", "x").is_err() && store.index("nope", &object("a", 1)).is_err());
    assert!(store.select(&Query::index("nope", "x")).is_err());
    assert!(store.list_index_func_values("nope").is_empty());
}

// ST-9: Go's TestIndexer (late index) as well.
#[test]
fn indices_can_be_added_at_any_time_and_atomically() {
    let store = Store::new(by_values());
    store.add(valued("a", 1, "x"));
    let late = || Indexers::new().with("name", |object: &DynamicObject| [Str::from(object.name())]);
    store.add_indexers(late()).unwrap();
    assert_eq!(named(&store.by_index("name", "a").unwrap()), ["a@1"]);
    let conflict = store.add_indexers(late().with("other", |_: &DynamicObject| None::<Str>)).unwrap_err();
    assert_eq!(conflict.to_string(), "indexer conflict: name");
    assert_eq!(store.snapshot().indexers().collect::<Vec<_>>(), ["namespace", "values", "name"]);
}

// ST-10, ST-12, ST-14: Go's TestThreadSafeStoreRV.
#[test]
fn the_store_has_the_version_of_its_content() {
    let store = Store::default();
    assert!(store.resource_version().is_empty());
    store.add(object("a", 1));
    assert_eq!(store.resource_version(), "1");
    store.update(object("a", 2));
    assert_eq!(store.resource_version(), "2");
    store.delete(object("a", 3));
    assert_eq!(store.resource_version(), "3");
    store.replace([object("a", 4), object("b", 2)], "7");
    assert_eq!(store.resource_version(), "7");
    store.bookmark("10");
    assert_eq!(store.resource_version(), "10");
    // Tombstones and objects without a version do not change it.
    store.transaction(|transaction| transaction.delete(&Deleted::LastKnown { key: key("b"), object: None }));
    store.add(object("c", ""));
    assert_eq!(store.resource_version(), "10");
    // Deleting a missing key is no error and changes nothing.
    store.delete(object("gone", 12));
    store.delete_key(&key("gone"));
    assert_eq!(named(&store.snapshot()), ["a@4", "c@"]);
    assert_eq!(store.resource_version(), "12");
}

// ST-14
#[test]
fn a_deletion_removes_the_stored_object_from_its_indices() {
    let store = Store::new(by_values());
    store.add(valued("a", 1, "x"));
    store.delete(valued("a", 2, "y"));
    assert!(store.list_index_func_values("values").is_empty());
}

// ST-11, ST-13
#[test]
fn readers_see_a_transaction_whole_or_not_at_all() {
    let store = Store::new(by_values());
    let before = store.snapshot();
    store.transaction(|transaction| {
        transaction.put(valued("a", 1, "x"));
        transaction.put(valued("b", 2, "x"));
        assert!(transaction.get("default", "a").is_some());
        assert!(store.is_empty());
    });
    assert!(before.is_empty());
    assert_eq!((store.len(), store.resource_version().as_str()), (2, "2"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.transaction(|transaction| {
            transaction.put(valued("c", 3, "x"));
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(store.len(), 2);
    store.add(valued("c", 3, "x"));
    assert_eq!(store.len(), 3);
}

// ST-11
#[test]
fn readers_never_see_two_of_one_key_nor_half_an_update() {
    let store = Store::new(by_values());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let snapshot = store.snapshot();
                    let keys: BTreeSet<ObjectKey> = snapshot.keys().collect();
                    assert_eq!(keys.len(), snapshot.len());
                    let indexed = snapshot.by_index("values", "x").unwrap().len();
                    assert_eq!(indexed, snapshot.len());
                    let versions: BTreeSet<String> =
                        snapshot.iter().map(|object| object.resource_version().to_owned()).collect();
                    assert!(versions.len() <= 1, "{versions:?}");
                }
            });
        }
        for version in 0..500 {
            let all = (0..40).map(|at| valued(&format!("o{at}"), version, "x"));
            store.transaction(|transaction| all.for_each(|object| drop(transaction.put(object))));
        }
    });
}

// ST-10: a few writes, and more than the store tracks for a held snapshot.
#[test]
fn a_snapshot_is_immutable_and_does_not_block_writes() {
    for writes in [1, 2, 20, 3000] {
        let store = Store::new(by_values());
        (0..50).for_each(|number| drop(store.add(valued(&format!("o{number}"), number, "old"))));
        let held = store.snapshot();
        let before = named(&held.iter().cloned().collect::<Vec<_>>());
        let write = |from: u64| {
            for number in from..from + writes {
                store.update(valued(&format!("o{}", number % 50), number, "new"));
                store.delete(object("o7", number));
                store.add(valued("o7", number, if number % 2 == 0 { "even" } else { "odd" }));
            }
            let last = store.get_by_key(&key("o7")).unwrap().labels().get("values").unwrap().to_owned();
            assert_eq!(named(&store.by_index("values", &last).unwrap()), [format!("o7@{}", from + writes - 1)]);
            assert_eq!(store.list().len(), 50);
        };
        write(100);
        let wanted = |snapshot: &Snapshot<DynamicObject>| {
            snapshot.iter().map(|object| (object.key(), object.resource_version().to_owned())).collect()
        };
        let after = store.snapshot();
        assert_eq!(replay(&held, &after), wanted(&after));
        assert_eq!(named(&held.iter().cloned().collect::<Vec<_>>()), before);
        drop((held, after));
        let between = store.snapshot();
        write(10_000);
        assert_eq!(replay(&between, &store.snapshot()), wanted(&store.snapshot()));
    }
}

// ST-11: a slot may pass from a removed object to another one.
#[test]
fn snapshot_differences_compare_by_key() {
    let store = Store::new(by_values());
    let all = ["a", "b", "c", "d"].map(|name| valued(name, 1, "x"));
    store.transaction(|transaction| all.iter().for_each(|object| drop(transaction.put(object.clone()))));
    let before = store.snapshot();
    for name in ["a", "b", "c"] {
        store.delete_key(&key(name));
    }
    // The same after slots have changed: one object unchanged, one modified, one added, one
    // removed.
    store.add(all[1].clone());
    store.add(valued("a", 2, "y"));
    store.add(valued("e", 3, "x"));
    let after = store.snapshot();
    let mut changes: Vec<String> = before.changes(&after).iter().map(describe).collect();
    changes.sort();
    assert_eq!(changes, ["+e@3", "-c@1", "a@1>a@2"]);
    let mut back: Vec<String> = after.changes(&before).iter().map(describe).collect();
    back.sort();
    assert_eq!(back, ["+c@1", "-e@3", "a@2>a@1"]);
    assert_eq!(named(&before.by_index("values", "x").unwrap().to_vec()), ["a@1", "b@1", "c@1", "d@1"]);
    assert_eq!(named(&after.by_index("values", "x").unwrap().to_vec()), ["b@1", "d@1", "e@3"]);
    // All slots changed, and all objects unchanged.
    store.replace(all.iter().rev().cloned(), "4");
    assert!(before.changes(&store.snapshot()).is_empty());
}

fn describe(change: &Change<'_, DynamicObject>) -> String {
    let name = |object: &DynamicObject| format!("{}@{}", object.name(), object.resource_version());
    match change {
        Change::Added(new) => format!("+{}", name(new)),
        Change::Updated { old, new } => format!("{}>{}", name(old), name(new)),
        Change::Removed(old) => format!("-{}", name(old)),
    }
}

fn replay(before: &Snapshot<DynamicObject>, after: &Snapshot<DynamicObject>) -> BTreeMap<ObjectKey, String> {
    let mut view: BTreeMap<ObjectKey, String> =
        before.iter().map(|object| (object.key(), object.resource_version().to_owned())).collect();
    for change in before.changes(after) {
        let (object, expected) = match change {
            Change::Added(new) => (new, None),
            Change::Updated { old, new } => (new, Some(old.resource_version().to_owned())),
            Change::Removed(old) => {
                assert_eq!(view.remove(&old.key()), Some(old.resource_version().to_owned()));
                continue;
            }
        };
        assert_eq!(view.insert(object.key(), object.resource_version().to_owned()), expected);
    }
    view
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // ST-4, ST-8, ST-10, ST-11: after any history the store equals a plain map, and every index
    // equals a scan.
    #[test]
    fn the_store_agrees_with_a_plain_map(
        writes in vec((0..60u8, 0..8u8, 0..40u8), 0..400), hold in 1..100usize,
    ) {
        let store = Store::new(by_values());
        let mut model: BTreeMap<String, (u64, String)> = BTreeMap::new();
        // Some snapshots are held until the end, during later writes.
        let mut held = vec![(store.snapshot(), model.clone())];
        for (at, &(name, values, what)) in writes.iter().enumerate() {
            if at % hold == 0 {
                held.push((store.snapshot(), model.clone()));
            }
            let (name, version) = (format!("o{name}"), at as u64);
            let values = ["", "a", "b", "a.b", "c", "b.c", "a.b.c", "b.b"][values as usize].to_owned();
            match what {
                0..22 => {
                    store.add(valued(&name, version, &values));
                    model.insert(name, (version, values));
                }
                22..39 => {
                    store.delete(object(&name, version));
                    model.remove(&name);
                }
                _ => {
                    store.replace([valued(&name, version, &values)], version.to_string());
                    model = [(name, (version, values))].into();
                }
            }
        }
        let snapshot = store.snapshot();
        prop_assert_eq!(snapshot.len(), model.len());
        for (name, (version, _)) in &model {
            let found = store.get_by_key(&key(name)).unwrap();
            prop_assert_eq!(found.resource_version(), version.to_string());
        }
        let has = |values: &str, value: &str| values.split('.').any(|other| other == value);
        for value in ["a", "b", "c"] {
            let scan: Vec<ObjectKey> =
                model.iter().filter(|(_, (_, values))| has(values, value)).map(|(name, _)| key(name)).collect();
            let mut scan = scan;
            scan.sort();
            prop_assert_eq!(store.index_keys("values", value).unwrap(), scan);
        }
        let query = Query::index("values", "a").and(Query::index("values", "b")).or(Query::index("values", "c"));
        let selected: BTreeSet<String> = store.select(&query).unwrap().iter().map(|o| o.name().to_owned()).collect();
        prop_assert_eq!(selected.len(), store.select(&query).unwrap().len());
        let scan: BTreeSet<String> = model.iter()
            .filter(|(_, (_, values))| has(values, "a") && has(values, "b") || has(values, "c"))
            .map(|(name, _)| name.clone()).collect();
        prop_assert_eq!(selected, scan);
        let versions = |model: &BTreeMap<String, (u64, String)>| -> BTreeMap<ObjectKey, String> {
            model.iter().map(|(name, (version, _))| (key(name), version.to_string())).collect()
        };
        for (earlier, then) in &held {
            let seen: BTreeMap<ObjectKey, String> =
                earlier.iter().map(|object| (object.key(), object.resource_version().to_owned())).collect();
            prop_assert_eq!(seen, versions(then));
            let indexed: usize = ["a", "b", "c"].map(|value| earlier.by_index("values", value).unwrap().len()).iter().sum();
            let scan = |(_, values): &(u64, String)| ["a", "b", "c"].iter().filter(|value| has(values, value)).count();
            prop_assert_eq!(indexed, then.values().map(scan).sum::<usize>());
            prop_assert_eq!(replay(earlier, &snapshot), versions(&model));
            prop_assert_eq!(replay(&snapshot, earlier), versions(then));
        }
    }
}
