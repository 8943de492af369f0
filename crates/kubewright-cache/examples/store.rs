//! Measures the store: `cargo run --release -p kubewright-cache --example store`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubewright_cache::{Indexers, Store};
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::{Object, ObjectKey, Str};

const OBJECTS: usize = 100_000;

fn main() {
    let objects: Vec<Arc<PartialObjectMetadata>> = (0..OBJECTS).map(|at| object(at, 1)).collect();
    let keys: Vec<ObjectKey> = objects.iter().map(|object| object.key()).collect();

    let empty = resident();
    let store = Store::new(Indexers::new());
    let took = time(|| store.replace(objects.iter().cloned(), "1"));
    println!("replace: {:.0} ns an object, {} bytes an object", each(took), (resident() - empty) / OBJECTS);
    let before = resident();
    store.add_indexers(Indexers::by_namespace()).expect("no such index yet");
    println!("index by namespace: {} bytes an object", (resident() - before) / OBJECTS);

    let took = time(|| keys.iter().for_each(|key| drop(black_box(store.get_by_key(key)))));
    println!("get in the order of creation: {:.0} ns", each(took));
    let shuffled: Vec<&ObjectKey> = (0..OBJECTS).map(|at| &keys[at * 7919 % OBJECTS]).collect();
    let took = time(|| shuffled.iter().for_each(|key| drop(black_box(store.get_by_key(key)))));
    println!("get in random order: {:.0} ns", each(took));

    let took =
        time(|| assert_eq!(store.list().iter().map(|object| Arc::as_ptr(object) as usize & 1).sum::<usize>(), 0));
    println!("list of all: {:.2} ms", took.as_secs_f64() * 1e3);
    let took = time(|| drop(black_box(store.list().to_vec())));
    println!("list of all to a vector: {:.2} ms", took.as_secs_f64() * 1e3);
    let took = time(|| drop(black_box(store.by_index("namespace", "namespace-3").expect("it exists"))));
    println!("by_index of {}: {:.2} ms", OBJECTS / 100, took.as_secs_f64() * 1e3);

    let updates: Vec<_> = (0..OBJECTS).map(|at| object(at * 7919 % OBJECTS, 2)).collect();
    let took = time(|| updates.iter().for_each(|object| drop(store.update(object.clone()))));
    println!("update, one by one: {:.0} ns", each(took));
    let took = time(|| {
        for batch in updates.chunks(1000) {
            store.transaction(|transaction| batch.iter().for_each(|object| drop(transaction.put(object.clone()))));
        }
    });
    println!("update, in batches of 1000: {:.0} ns", each(took));
}

fn object(at: usize, version: u32) -> Arc<PartialObjectMetadata> {
    let mut object = PartialObjectMetadata::default();
    object.metadata.name = Some(Str::from(format!("deployment-7d4b9c6f5-{at:05}")));
    object.metadata.namespace = Some(Str::from(format!("namespace-{}", at % 100)));
    object.set_resource_version(&version.to_string());
    Arc::new(object)
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn each(took: Duration) -> f64 {
    took.as_secs_f64() * 1e9 / OBJECTS as f64
}

/// Resident memory in bytes; zero if the system does not report it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
