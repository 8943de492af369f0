//! Memory of each part of a pod: removes the parts one by one, and counts the freed bytes.

use kubewright_api::core::v1::Pod;
use kubewright_core::{Decoder, StringPool};

use crate::counting;

type Part = (&'static str, fn(&mut Pod));

/// From the inside out, so that each part is counted without those above it.
const PARTS: &[Part] = &[
    ("containers: environment", |pod| spec(pod).containers.iter_mut().for_each(|c| c.env = Default::default())),
    ("containers: resources", |pod| spec(pod).containers.iter_mut().for_each(|c| c.resources = None)),
    ("containers: volume mounts", |pod| {
        spec(pod).containers.iter_mut().for_each(|c| c.volume_mounts = Default::default())
    }),
    ("containers: probes", |pod| spec(pod).containers.iter_mut().for_each(|c| c.liveness_probe = None)),
    ("containers: security context", |pod| spec(pod).containers.iter_mut().for_each(|c| c.security_context = None)),
    ("containers: all else", |pod| spec(pod).containers = Default::default()),
    ("volumes", |pod| spec(pod).volumes = Default::default()),
    ("tolerations", |pod| spec(pod).tolerations = Default::default()),
    ("pod security context", |pod| spec(pod).security_context = None),
    ("conditions", |pod| status(pod).conditions = Default::default()),
    ("container statuses", |pod| status(pod).container_statuses = Default::default()),
    ("addresses", |pod| {
        status(pod).host_ips = Default::default();
        status(pod).pod_ips = Default::default();
    }),
    ("labels", |pod| pod.metadata.labels = Default::default()),
    ("annotations", |pod| pod.metadata.annotations = Default::default()),
    ("owner references", |pod| pod.metadata.owner_references = Default::default()),
    ("strings of metadata and spec", |pod| {
        let spec = spec(pod);
        (spec.service_account_name, spec.service_account, spec.node_name, spec.scheduler_name) = Default::default();
        spec.preemption_policy = None;
        (pod.metadata.name, pod.metadata.generate_name, pod.metadata.uid) = Default::default();
    }),
];

/// Prints the bytes of each part, as a cache holds them.
pub fn print(pods: &[Vec<u8>]) {
    counting::start();
    let mut decoder = Decoder::new().skip_managed_fields().pool(StringPool::default());
    let mut kept: Vec<Box<Pod>> = Vec::with_capacity(pods.len());
    kept.extend(pods.iter().map(|pod| Box::new(decoder.json(pod).expect("a pod"))));
    // The pool is dropped first, so the remaining bytes belong to the pods.
    drop(decoder);
    let count = pods.len() as u64;
    let mut held = counting::held() - 8 * count;
    println!("\n{:32} {:>6}", "a pod in a cache, bytes", held / count);
    for (name, take_away) in PARTS {
        kept.iter_mut().for_each(|pod| take_away(pod));
        let left = counting::held() - 8 * count;
        println!("{name:32} {:>6}", (held - left) / count);
        held = left;
    }
    println!("{:32} {:>6}", "the pod itself, spec and status", held / count);
    counting::stop();
}

fn spec(pod: &mut Pod) -> &mut kubewright_api::core::v1::PodSpec {
    pod.spec.as_mut().expect("pods have a spec")
}

fn status(pod: &mut Pod) -> &mut kubewright_api::core::v1::PodStatus {
    pod.status.as_mut().expect("pods have a status")
}
