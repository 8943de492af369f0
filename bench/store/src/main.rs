//! The store in the cases of the peers' `micro` programs: get, by_index and list, alone and with a
//! concurrent writer. Prints one line of JSON per case, and first the store's own memory per
//! object.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use kubewright::api::core::v1::{Pod, PodSpec};
use kubewright::cache::{Indexers, Store};
use kubewright::{Object, ObjectKey};

const PODS: u64 = 100_000;

fn main() {
    let indexers =
        Indexers::by_namespace().with("node", |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    let store = Arc::new(Store::new(indexers));
    let pods: Arc<[Arc<Pod>]> = (0..PODS).map(|number| Arc::new(pod(number))).collect();
    let before = heap_bytes();
    let by_namespace = Store::<Pod>::new(Indexers::by_namespace());
    pods.iter().for_each(|pod| drop(by_namespace.add(pod.clone())));
    let bytes = (heap_bytes() - before) as f64 / PODS as f64;
    println!(
        r#"{{"peer": "kubewright", "bench": "store_bytes_with_namespace_index", "bytes_per_object": {bytes:.1}}}"#
    );
    drop(by_namespace);
    measure("store_add", PODS, &AtomicU64::new(0), |number| {
        store.add(pods[number as usize].clone());
    });
    let keys: Vec<ObjectKey> =
        (0..1u64 << 16).map(|number| pods[(number.wrapping_mul(2_654_435_761) % PODS) as usize].key()).collect();
    for writing in [false, true] {
        let (stop, updates) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = writing.then(|| {
            let (stop, updates, store, pods) = (stop.clone(), updates.clone(), store.clone(), pods.clone());
            std::thread::spawn(move || {
                for number in (0..).take_while(|_| !stop.load(Relaxed)) {
                    store.update(pods[(number * 7919 % PODS) as usize].clone());
                    updates.fetch_add(1, Relaxed);
                }
            })
        });
        while writing && updates.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let case = |name: &str, operations: u64, run: &dyn Fn(u64)| {
            measure(&format!("{name}{}", if writing { "_with_updater" } else { "" }), operations, &updates, run);
        };
        case("store_get", 2_000_000, &|number| {
            black_box(store.get_by_key(&keys[number as usize & 0xffff]));
        });
        // The same with few objects, which fit into the CPU cache.
        case("store_get_warm", 2_000_000, &|number| {
            black_box(store.get_by_key(&keys[number as usize % 1000]));
        });
        // Peers return a list of pointers to the objects, so ours is collected as well.
        case("store_by_index_ns_500", 2000, &|number| {
            black_box(
                store.by_index("namespace", pods[number as usize % 200].namespace()).expect("the index is there"),
            );
        });
        case("store_by_index_node_200", 5000, &|number| {
            let node = pods[number as usize % 500].spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            black_box(store.by_index("node", node.expect("it has one")).expect("the index is there"));
        });
        // Walks the snapshot, as users of the peers walk the list of pointers.
        case("store_list", 50, &|_| {
            store.list().iter().for_each(|pod| {
                black_box(Arc::as_ptr(pod));
            });
        });
        // The same, collected into a list.
        case("store_list_copied", 50, &|_| {
            black_box(store.list().to_vec());
        });
        // Iterating over all objects needs no list.
        case("store_visit", 50, &|_| {
            black_box(store.list().iter().filter(|pod| pod.name().is_empty()).count());
        });
        stop.store(true, Relaxed);
        if let Some(writer) = writer {
            writer.join().expect("no panic");
        }
    }
    measure("store_update_alone", 1_000_000, &AtomicU64::new(0), |number| {
        store.update(pods[(number * 7919 % PODS) as usize].clone());
    });
}

/// A pod with only a key and a node name, so that the store dominates the memory.
fn pod(number: u64) -> Pod {
    let mut pod = Pod::default();
    pod.set_namespace(&format!("payments-{:03}", number % 200));
    pod.set_name(&format!("payments-api-{}-7d9c5b6f4d-x{number:05x}", number / 10));
    pod.set_resource_version(&number.to_string());
    pod.spec = Some(PodSpec { node_name: Some(format!("node-{}", number % 500).into()), ..Default::default() }.into());
    pod
}

fn measure(name: &str, operations: u64, updates: &AtomicU64, run: impl Fn(u64)) {
    let (before, start, cpu) = (updates.load(Relaxed), Instant::now(), cpu_seconds());
    (0..operations).for_each(run);
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (each, rate) = (wall * 1e9 / operations as f64, (updates.load(Relaxed) - before) as f64 / wall);
    println!(
        r#"{{"peer": "kubewright", "bench": "{name}", "ops": {operations}, "wall_s": {wall:.6}, "cpu_s": {cpu:.6}, "ns_per_op": {each:.1}, "updates_per_s": {rate:.0}}}"#
    );
}

/// Bytes allocated by malloc.
fn heap_bytes() -> usize {
    // Only the crates of the library forbid `unsafe`.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

fn cpu_seconds() -> f64 {
    // Only the crates of the library forbid `unsafe`.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
