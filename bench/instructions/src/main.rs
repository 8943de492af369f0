//! One case of codec, store or queue, small enough to run under callgrind, which counts what
//! `measured` executes and nothing else.
//!
//! Argument: the case; without one, the cases are listed. Each takes about 1,000 pods or keys.

use std::hint::black_box;
use std::sync::Arc;

use kubewright::api::core::v1::Pod;
use kubewright::cache::{Indexers, Store};
use kubewright::protobuf::Envelope;
use kubewright::workqueue::{QueueOptions, WorkQueue};
use kubewright::{Decoder, Object, StringPool};
use replay::{pb, podgen};

const PODS: u64 = 1000;

/// A case: its name, and the function that prepares the measured work.
type Case = (&'static str, fn() -> Box<dyn FnMut()>);

const CASES: &[Case] = &[
    ("json-decode", json_decode),
    ("json-encode", json_encode),
    ("protobuf-decode", protobuf_decode),
    ("protobuf-encode", protobuf_encode),
    ("store-add", store_add),
    ("store-get", store_get),
    ("store-by-index", store_by_index),
    ("store-list", store_list),
    ("queue-add-get-done", queue_pass),
];

fn main() {
    let Some(wanted) = std::env::args().nth(1) else {
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, prepare) = CASES.iter().find(|(name, _)| *name == wanted).expect("one of the cases");
    let mut work = prepare();
    measured(&mut *work);
}

/// The only function whose instructions are counted.
#[inline(never)]
#[unsafe(no_mangle)]
fn measured(work: &mut dyn FnMut()) {
    work();
    // Prevents a tail call above, which would leave the counted function.
    black_box(());
}

fn json_pods() -> Vec<Vec<u8>> {
    let text = |number| {
        let mut body = String::new();
        podgen::body(number, 0, 1000 + number, &mut body);
        format!(r#"{{"kind":"Pod","apiVersion":"v1",{body}}}"#).into_bytes()
    };
    (0..PODS).map(text).collect()
}

fn protobuf_pods() -> Vec<Vec<u8>> {
    let message = |text: Vec<u8>| {
        let mut bytes = Vec::new();
        pb::message(&mut bytes, "Pod", &serde_json::from_slice(&text).expect("JSON"));
        bytes
    };
    json_pods().into_iter().map(message).collect()
}

/// A decoder as used by caches: without managed fields, with a string pool.
fn decoder() -> Decoder {
    Decoder::new().skip_managed_fields().pool(StringPool::default())
}

fn pods() -> Vec<Arc<Pod>> {
    let mut decoder = decoder();
    json_pods().iter().map(|text| Arc::new(decoder.json(text).expect("a pod"))).collect()
}

fn json_decode() -> Box<dyn FnMut()> {
    let (pods, mut decoder) = (json_pods(), decoder());
    Box::new(move || pods.iter().for_each(|pod| drop(black_box(decoder.json::<Pod>(pod).expect("a pod")))))
}

fn protobuf_decode() -> Box<dyn FnMut()> {
    let (pods, mut decoder) = (protobuf_pods(), decoder());
    Box::new(move || {
        for bytes in &pods {
            let mut pod = Pod::default();
            decoder.protobuf_message_into(&mut pod, bytes).expect("a pod");
            black_box(pod);
        }
    })
}

fn json_encode() -> Box<dyn FnMut()> {
    let pods = pods();
    Box::new(move || pods.iter().for_each(|pod| drop(black_box(pod.to_json()))))
}

fn protobuf_encode() -> Box<dyn FnMut()> {
    let pods = pods();
    Box::new(move || {
        for pod in &pods {
            let mut bytes = Vec::new();
            Envelope::encode(&**pod, &mut bytes);
            black_box(bytes);
        }
    })
}

fn empty_store() -> Store<Pod> {
    Store::new(Indexers::by_namespace())
}

fn full_store() -> (Store<Pod>, Vec<Arc<Pod>>) {
    let (store, pods) = (empty_store(), pods());
    pods.iter().for_each(|pod| drop(store.add(pod.clone())));
    (store, pods)
}

fn store_add() -> Box<dyn FnMut()> {
    let (store, pods) = (empty_store(), pods());
    Box::new(move || pods.iter().for_each(|pod| drop(store.add(pod.clone()))))
}

fn store_get() -> Box<dyn FnMut()> {
    let (store, pods) = full_store();
    let keys: Vec<_> = pods.iter().map(|pod| pod.key()).collect();
    Box::new(move || keys.iter().for_each(|key| drop(black_box(store.get_by_key(key)))))
}

fn store_by_index() -> Box<dyn FnMut()> {
    let (store, pods) = full_store();
    Box::new(move || pods.iter().for_each(|pod| drop(black_box(store.by_index("namespace", pod.namespace())))))
}

fn store_list() -> Box<dyn FnMut()> {
    let (store, _) = full_store();
    Box::new(move || (0..PODS / 10).for_each(|_| drop(black_box(store.list().to_vec()))))
}

fn queue_pass() -> Box<dyn FnMut()> {
    let keys: Vec<Arc<str>> =
        (0..PODS).map(|number| format!("payments-{:03}/web-{number}", number % 200).into()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a thread");
    Box::new(move || {
        runtime.block_on(async {
            let queue = WorkQueue::<Arc<str>>::new(QueueOptions::new());
            keys.iter().for_each(|key| queue.add(key.clone()));
            for _ in &keys {
                black_box(queue.get().await.expect("the queue is open"));
            }
        });
    })
}
