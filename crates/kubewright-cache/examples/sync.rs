//! Measures an informer over many pods: `cargo run --release -p kubewright-cache --example sync
//! [typed|compact] [pods]`.
//!
//! The pods are generated from one real pod as a protobuf watch stream, so that only the cache
//! occupies memory. The time and memory to generate them are measured first and subtracted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Request, Response};
use kubewright_api::core::v1::Pod;
use kubewright_cache::{Compact, Indexers, InformerOptions, ListWatch, SharedIndexInformer};
use kubewright_client::transport::{Body, ResponseFuture, TransportError};
use kubewright_client::{Api, Client};
use kubewright_core::message::Message;
use kubewright_core::meta::v1::Status;
use kubewright_core::protobuf::{Encoder, Envelope};
use kubewright_core::stream::{Encoding, WatchDecoder};
use kubewright_core::{Decoder, Kind, Object, Str, StringPool};
use tokio_util::sync::CancellationToken;

/// Number of updates after the initial list.
const UPDATES: u64 = 50_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let compact = std::env::args().nth(1).is_some_and(|form| form == "compact");
    let pods: u64 = std::env::args().nth(2).and_then(|pods| pods.parse().ok()).unwrap_or(100_000);
    if compact {
        measure::<Compact<Pod>>(pods).await;
    } else {
        measure::<Pod>(pods).await;
    }
}

async fn measure<T: Kind>(pods: u64) {
    let making = processor_seconds();
    let versions = || Arc::new((0..pods).map(|at| AtomicU64::new(pods + at)).collect::<Vec<_>>());
    let mut watch = Watch::new(pods, UPDATES, versions());
    while let Some(frame) = watch.frame() {
        std::hint::black_box(frame);
    }
    let making = processor_seconds() - making;
    let decoding = processor_seconds();
    let mut watch = Watch::new(pods, UPDATES, versions());
    let mut events = WatchDecoder::<T>::new(Encoding::Protobuf);
    let mut decoder = Decoder::new().pool(StringPool::default()).skip_managed_fields();
    while let Some(frame) = watch.frame() {
        events.push(&frame);
        std::hint::black_box(events.next(&mut decoder).expect("it can be decoded"));
    }
    let decoding = processor_seconds() - decoding - making;
    println!("making {making:.2} s, decoding without a cache {decoding:.2} s");
    println!("a compact pod takes {} bytes", Compact::new(&template()).expect("it can be encoded").byte_len());

    let watches = Arc::new(AtomicU64::new(0));
    let (opened, newest) = (watches.clone(), versions());
    let client = Client::over(move |_: Request<Bytes>| {
        // The first watch yields all objects and updates, and then expires; the second yields all
        // objects again.
        let again = opened.fetch_add(1, Ordering::Relaxed) > 0;
        let watch = Watch::new(pods, if again { 0 } else { UPDATES }, newest.clone());
        let body = Response::builder().header("content-type", "application/vnd.kubernetes.protobuf;stream=watch");
        let response = body.body(Body::new(watch)).expect("a valid response");
        Box::pin(async move { Ok(response) }) as ResponseFuture
    });
    let options = InformerOptions::default().indexers(Indexers::by_namespace());
    let informer = SharedIndexInformer::new(ListWatch::new(Api::<T>::all(&client)), options);
    let (before, start) = (memory("VmRSS"), processor_seconds());
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(&stop).await }
    });
    informer.synced().await;
    let synced = processor_seconds() - start;
    while informer.store().resource_version().as_str() != (2 * pods + UPDATES).to_string() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let updated = processor_seconds() - start - synced;
    let steady = memory("VmRSS") - before;
    let peak = memory("VmHWM") - before;
    let share = pods as f64 / (pods + UPDATES) as f64;
    println!("sync: {:.2} s of processor time, {:.2} s of it for making the pods", synced, making * share);
    println!("{UPDATES} updates: {updated:.2} s, {:.2} s of it for making the pods", making * (1.0 - share));
    println!(
        "memory: {} KiB steady, {} bytes a pod; peak {:.2} of that",
        steady,
        steady * 1024 / pods,
        peak as f64 / steady as f64
    );

    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let lists = informer.health().map_or(0, |health| health.lists);
    while informer.health().is_some_and(|health| health.lists == lists) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let again = memory("VmHWM") - before;
    println!("relist: peak {:.2} of steady", again as f64 / steady as f64);
    stop.cancel();
    let _ = task.await;
}

/// Encodes the frames of a watch.
struct Watch {
    step: u64,
    pods: u64,
    updates: u64,
    template: Pod,
    /// The newest version of each pod.
    versions: Arc<Vec<AtomicU64>>,
}

impl Watch {
    fn new(pods: u64, updates: u64, versions: Arc<Vec<AtomicU64>>) -> Self {
        Watch { step: 0, pods, updates, template: template(), versions }
    }

    fn frame(&mut self) -> Option<Bytes> {
        let (pods, step) = (self.pods, self.step);
        self.step += 1;
        let (kind, at) = match step {
            _ if step < pods => ("ADDED", step),
            _ if step == pods => return Some(self.bookmark(2 * pods)),
            _ if step <= pods + self.updates => ("MODIFIED", step * 7919 % pods),
            // The watch expires: another round starts with a full list.
            _ if step == pods + self.updates + 1 && self.updates > 0 => return Some(expired()),
            _ => return None,
        };
        if kind == "MODIFIED" {
            self.versions[at as usize].store(pods + step, Ordering::Relaxed);
        }
        let version = self.versions[at as usize].load(Ordering::Relaxed);
        let pod = &mut self.template;
        pod.metadata.name = Some(Str::from(format!("deployment-7d4b9c6f5-{at:06}")));
        pod.metadata.namespace = Some(Str::from(format!("namespace-{}", at % 100)));
        pod.metadata.uid = Some(Str::from(format!("6b9c5c0e-1234-4321-8888-{at:012}")));
        pod.metadata.resource_version = Some(Str::from(version.to_string()));
        Some(frame(kind, &self.template))
    }

    fn bookmark(&self, version: u64) -> Bytes {
        let mut pod = Pod::default();
        pod.set_resource_version(&version.to_string());
        pod.metadata.annotations.insert("k8s.io/initial-events-end", Str::from("true"));
        frame("BOOKMARK", &pod)
    }
}

fn expired() -> Bytes {
    frame("ERROR", &Status::expired("too old resource version"))
}

fn frame(kind: &str, object: &dyn Message) -> Bytes {
    let (message, mut object) = (object, Vec::new());
    Envelope::encode(message, &mut object);
    let mut out = vec![0; 4];
    let mut encoder = Encoder { out: &mut out };
    encoder.bytes(1, kind.as_bytes());
    encoder.delimited(2, |encoder| encoder.bytes(1, &object));
    let length = u32::try_from(out.len() - 4).expect("a small frame").to_be_bytes();
    out[..4].copy_from_slice(&length);
    out.into()
}

impl Stream for Watch {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.frame() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Poll::Pending,
        }
    }
}

/// A real pod.
fn template() -> Pod {
    let json = include_bytes!("../../kubewright-api/tests/codecs/data/pod.json");
    Decoder::new().json(json).expect("it is a pod")
}

/// A line of `/proc/self/status`, in KiB.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|have| have.starts_with(line)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// CPU time of the process, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
