//! Values and backends for the tests of the store.

// Each test program uses some of them.
#![allow(dead_code)]

use std::io;

use kubewright_storage::{Backend, Draft, Key, Store, StoreEvent};

/// Becomes the revision of its write.
pub struct Revision;

impl Draft<u64> for Revision {
    fn stamp(self, revision: u64) -> u64 {
        revision
    }
}

/// Stored unchanged.
pub struct Fixed<V>(pub V);

impl<V> Draft<V> for Fixed<V> {
    fn stamp(self, _: u64) -> V {
        self.0
    }
}

/// Replaces an object at its newest revision, and returns the new one.
pub fn replace<V>(store: &Store<V>, key: &Key, draft: impl Draft<V>) -> u64 {
    let newest = store.newest(key).expect("the object exists").revision;
    store.update(key, newest, draft).expect("there is no other writer").revision
}

/// Removes an object at its newest revision, and returns the revision of the deletion.
pub fn remove<V>(store: &Store<V>, key: &Key, last: impl Draft<V>) -> u64 {
    let newest = store.newest(key).expect("the object exists").revision;
    store.delete(key, newest, last).expect("there is no other writer").revision
}

/// A backend that is a function of the event.
pub struct Journal<F>(pub F);

impl<V, F: FnMut(&StoreEvent<V>) -> io::Result<()> + Send + Sync> Backend<V> for Journal<F> {
    fn propose(&mut self, event: &StoreEvent<V>, _: u64) -> io::Result<()> {
        self.0(event)
    }
}
