//! Special stores: undelta, expiration, mutation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{ExpirationCache, Indexers, MutationCache, Store, UndeltaStore};
use kubewright_core::{DynamicObject, Object};
use proptest::{collection::vec, prelude::*};
use tokio::time::{advance, sleep};

use crate::support::{key, named, object, objects};

// UD-1: Go's TestUpdateCallsPush, TestDeleteCallsPush, TestReadsDoNotCallPush,
// TestReplaceCallsPush.
#[test]
fn every_change_pushes_the_whole_list_and_reading_does_not() {
    let pushed = Arc::new(Mutex::new(Vec::new()));
    let log = pushed.clone();
    let store = UndeltaStore::new(move |all| log.lock().unwrap().push(named(&all).join(" ")));
    store.add(object("a", 1));
    store.update(object("a", 2));
    store.replace(objects("b@3 c@4"), "5");
    store.delete(object("b", 6));
    assert_eq!(store.list_keys(), [key("c")]);
    assert!(store.get(&object("c", 0)).is_some() && store.get_by_key(&key("b")).is_none());
    store.resync();
    assert_eq!(*pushed.lock().unwrap(), ["a@1", "a@2", "b@3 c@4", "c@4"]);
}

// ST-16: Go's TestTTLExpirationBasic, TestReAddExpiredItem, TestTTLList, TestTTLPolicy.
#[tokio::test(start_paused = true)]
async fn objects_expire_when_they_are_older_than_their_time() {
    let cache = ExpirationCache::new(Duration::from_secs(10));
    cache.replace(objects("a@1 b@1"));
    advance(Duration::from_secs(10)).await;
    assert_eq!(named(&cache.list()), ["a@1", "b@1"]);
    cache.update(object("b", 2));
    advance(Duration::from_millis(1)).await;
    assert!(cache.get_by_key(&key("a")).is_none());
    assert_eq!(named(&cache.list()), ["b@2"]);
    cache.add(object("a", 3));
    assert_eq!(cache.get(&object("a", 0)).unwrap().resource_version(), "3");
    cache.delete(&object("a", 3));
    assert_eq!(cache.list_keys(), [key("b")]);
    let for_ever = ExpirationCache::<DynamicObject>::new(Duration::ZERO);
    for_ever.add(object("a", 1));
    sleep(Duration::from_secs(1 << 30)).await;
    assert_eq!(for_ever.list().len(), 1);
}

fn store(text: &str) -> Store<DynamicObject> {
    let store = Store::new(Indexers::by_namespace());
    store.replace(objects(text), "1");
    store
}

fn version(object: Option<Arc<DynamicObject>>) -> Option<String> {
    object.map(|object| object.resource_version().to_owned())
}

// ST-17
#[tokio::test(start_paused = true)]
async fn the_newer_of_the_written_and_the_stored_state_wins() {
    let store = store("a@5");
    let cache = MutationCache::new(store.clone());
    let get = |name: &str| version(cache.get_by_key(&key(name)));
    cache.mutation(object("a", 4));
    assert_eq!(get("a").as_deref(), Some("5"));
    // Versions are numbers: 10 is newer than 5.
    cache.mutation(object("a", 10));
    assert_eq!(get("a").as_deref(), Some("10"));
    assert_eq!(named(&cache.by_index("namespace", "default").unwrap()), ["a@10"]);
    store.update(object("a", 11));
    assert_eq!(get("a").as_deref(), Some("11"));
    cache.mutation(object("new", 12));
    assert_eq!(get("new"), None);
    cache.mutation(object("a", 20));
    advance(Duration::from_secs(301)).await;
    assert_eq!(get("a").as_deref(), Some("11"));
    assert!(cache.by_index("nope", "x").is_err());
}

// ST-17: additions, the concurrent deletion and recreation, and the hundred newest.
#[tokio::test(start_paused = true)]
async fn created_objects_stay_in_the_mutation_cache_until_the_watch_delivers_them() {
    let cache = MutationCache::new(store("a@5")).include_adds();
    let get = |name: &str| version(cache.get_by_key(&key(name)));
    cache.mutation(object("new", 12));
    cache.mutation(object("new", 11));
    assert_eq!(get("new").as_deref(), Some("12"));
    assert_eq!(named(&cache.by_index("namespace", "default").unwrap()), ["a@5", "new@12"]);
    cache.on_add_or_update(&object("new", 11));
    assert_eq!(get("new").as_deref(), Some("12"));
    cache.on_delete(&object("new", 13));
    assert_eq!(get("new"), None);
    // Recreated by this program; then the deletion of the previous object arrives.
    let mut again = DynamicObject::clone(&object("new", 20));
    again.metadata.uid = Some("another".into());
    cache.mutation(again);
    cache.on_delete(&object("new", 15));
    assert_eq!(get("new").as_deref(), Some("20"));
    cache.on_add_or_update(&object("new", 20));
    assert_eq!(get("new"), None);
    (0..101).for_each(|at| cache.mutation(object(&format!("o{at}"), at + 1)));
    assert_eq!((get("o0"), get("o1").is_some()), (None, true));
    // The least recently used of the others is evicted.
    cache.mutation(object("more", 1));
    assert_eq!((get("o1").is_some(), get("o2"), get("o3").is_some()), (true, None, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // ST-16: against a plain map of values and times.
    #[test]
    fn expiration_agrees_with_a_model(steps in vec((0..6u8, 0..6u8), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let cache = ExpirationCache::<DynamicObject>::new(Duration::from_secs(3));
            let mut model: std::collections::BTreeMap<String, (usize, usize)> = Default::default();
            let mut clock = 0;
            for (at, &(name, what)) in steps.iter().enumerate() {
                let name = format!("o{name}");
                match what {
                    0..3 => {
                        cache.add(object(&name, at));
                        model.insert(name.clone(), (at, clock));
                    }
                    3 => {
                        cache.delete(&object(&name, at));
                        model.remove(&name);
                    }
                    _ => {
                        advance(Duration::from_secs(1)).await;
                        clock += 1;
                    }
                }
                let alive = |(_, since): &(usize, usize)| clock - since <= 3;
                let expected = model.get(&name).filter(|entry| alive(entry)).map(|(version, _)| version.to_string());
                assert_eq!(version(cache.get_by_key(&key(&name))), expected);
            }
            assert_eq!(cache.list().len(), model.values().filter(|(_, since)| clock - since <= 3).count());
        });
    }
}
