//! Decodes the same pods by kubewright and by its peers, in turns within one process.
//!
//! Takes the pods from the replay server of the bench, see `../README.md`. For each decoder it
//! prints the CPU time per pod: best and median of several rounds, including the drop of the
//! object. A further round keeps all objects, each in an `Arc`, and yields bytes and allocations
//! per pod.
//!
//! Arguments: the address of the server, the number of pods, and a part of the names of the
//! decoders to run.

mod breakdown;
mod counting;
mod replay;

use std::hint::black_box;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as OpenapiPod;
use k8s_pb::api::core::v1::Pod as ProstPod;
use kubewright_api::core::v1::Pod;
use kubewright_core::{Decoder, StringPool};
use prost::Message;

const ROUNDS: usize = 7;

/// A decoder, with its measurements.
struct Way<'a> {
    name: &'static str,
    pods: &'a [Vec<u8>],
    /// Decodes and drops all pods.
    run: Box<dyn FnMut(&[Vec<u8>]) + 'a>,
    /// Decodes all pods and calls back while all are held.
    keep: Box<dyn FnMut(&[Vec<u8>], &mut dyn FnMut()) + 'a>,
    cpu: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new<T: 'a, S: 'a>(
        name: &'static str,
        pods: &'a [Vec<u8>],
        start: impl Fn() -> S + 'a,
        decode: impl Fn(&mut S, &[u8]) -> T + Clone + 'a,
    ) -> Self {
        let (mut state, again) = (start(), decode.clone());
        Way {
            name,
            pods,
            run: Box::new(move |pods| {
                for pod in pods {
                    black_box(decode(&mut state, black_box(pod)));
                }
            }),
            keep: Box::new(move |pods, held| {
                let mut kept = Vec::with_capacity(pods.len());
                counting::start();
                let mut state = start();
                for pod in pods {
                    kept.push(Arc::new(again(&mut state, pod)));
                }
                held();
            }),
            cpu: Vec::new(),
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18080".into());
    let pods = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let only = arguments.next().unwrap_or_default();
    let json = replay::json_pods(&server, pods);
    let protobuf = replay::protobuf_pods(&server, pods);
    println!("{} pods, {} bytes of JSON and {} of protobuf each", json.len(), mean(&json), mean(&protobuf));

    let json_pod = |decoder: &mut Decoder, bytes: &[u8]| -> Pod { decoder.json(bytes).expect("a pod") };
    let protobuf_pod = |decoder: &mut Decoder, bytes: &[u8]| {
        let mut pod = Pod::default();
        decoder.protobuf_message_into(&mut pod, bytes).expect("a pod");
        pod
    };
    let lean = || Decoder::new().skip_managed_fields().pool(StringPool::default());
    let ways = [
        Way::new(
            "json serde_json k8s-openapi",
            &json,
            || (),
            |_, bytes| -> OpenapiPod { serde_json::from_slice(bytes).expect("a pod") },
        ),
        Way::new(
            "json serde_json k8s-openapi, managedFields dropped",
            &json,
            || (),
            |_, bytes| {
                let mut pod: OpenapiPod = serde_json::from_slice(bytes).expect("a pod");
                pod.metadata.managed_fields = None;
                pod
            },
        ),
        Way::new("json kubewright, everything kept", &json, Decoder::new, json_pod),
        Way::new("json kubewright, as in a cache", &json, lean, json_pod),
        Way::new("protobuf prost k8s-pb", &protobuf, || (), |_, bytes| ProstPod::decode(bytes).expect("a pod")),
        Way::new("protobuf kubewright, everything kept", &protobuf, Decoder::new, protobuf_pod),
        Way::new("protobuf kubewright, as in a cache", &protobuf, lean, protobuf_pod),
    ];
    let mut ways: Vec<Way<'_>> = ways.into_iter().filter(|way| way.name.contains(&only)).collect();
    // Rounds are the outer loop, so that noise of the machine affects all decoders alike.
    for _ in 0..ROUNDS {
        for way in &mut ways {
            let before = counting::cpu_seconds();
            (way.run)(way.pods);
            way.cpu.push((counting::cpu_seconds() - before) * 1e6 / way.pods.len() as f64);
        }
    }
    println!("{:52} {:>9} {:>9} {:>7} {:>7} {:>7}", "", "µs best", "median", "ratio", "bytes", "allocs");
    let mut peer = 0.0;
    for way in &mut ways {
        way.cpu.sort_by(f64::total_cmp);
        let mut counts = (0, 0);
        (way.keep)(way.pods, &mut || counts = counting::stop());
        let count = way.pods.len() as f64;
        if way.name.ends_with("k8s-openapi") || way.name.ends_with("k8s-pb") {
            peer = way.cpu[0];
        }
        println!(
            "{:52} {:>9.2} {:>9.2} {:>7.2} {:>7.0} {:>7.1}",
            way.name,
            way.cpu[0],
            way.cpu[ROUNDS / 2],
            peer / way.cpu[0],
            counts.0 as f64 / count,
            counts.1 as f64 / count,
        );
    }
    if only.is_empty() {
        breakdown::print(&json);
    }
}

fn mean(pods: &[Vec<u8>]) -> usize {
    pods.iter().map(Vec::len).sum::<usize>() / pods.len().max(1)
}
