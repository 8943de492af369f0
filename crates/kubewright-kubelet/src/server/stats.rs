//! The resource usage of a node, as a kubelet reports it.

use std::sync::Arc;

use http::{Response, StatusCode};
use kubewright_api::core::v1::{Node, Pod};
use kubewright_core::{Object, Value, json};
use kubewright_net::clock;
use kubewright_net::transport::Body;

use super::{respond, text};
use crate::usage::{ContainerUsage, usage};

/// `/stats/summary`
pub(super) fn summary(node: &Node, pods: &[Arc<Pod>]) -> Response<Body> {
    let now = clock::now().to_string();
    let measured = |cpu: i64, memory: i64| {
        let cpu = json!({"time": now.as_str(), "usageNanoCores": cpu});
        (cpu, json!({"time": now.as_str(), "usageBytes": memory, "workingSetBytes": memory}))
    };
    let mut total = (0_i64, 0_i64);
    let mut items = Vec::new();
    for pod in pods {
        let mut of_pod = (0_i64, 0_i64);
        let mut containers = Vec::new();
        for container in usage(pod) {
            let (nano_cores, bytes) = amounts(&container);
            of_pod = (of_pod.0.saturating_add(nano_cores), of_pod.1.saturating_add(bytes));
            let (cpu, memory) = measured(nano_cores, bytes);
            containers.push(json!({"name": container.container.as_str(), "cpu": cpu, "memory": memory}));
        }
        total = (total.0.saturating_add(of_pod.0), total.1.saturating_add(of_pod.1));
        let (cpu, memory) = measured(of_pod.0, of_pod.1);
        let reference = json!({"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()});
        items.push(json!({"podRef": reference, "containers": Value::Array(containers.into_iter().collect()), "cpu": cpu, "memory": memory}));
    }
    let (cpu, memory) = measured(total.0, total.1);
    let summary = json!({
        "node": {"nodeName": node.name(), "cpu": cpu, "memory": memory},
        "pods": Value::Array(items.into_iter().collect()),
    });
    respond(StatusCode::OK, "application/json", summary.to_string())
}

/// `/metrics/resource`, in Prometheus' format.
pub(super) fn metrics(node: &Node, pods: &[Arc<Pod>]) -> Response<Body> {
    let mut bytes_of_node = 0_i64;
    let mut lines = String::from("# TYPE container_memory_working_set_bytes gauge\n");
    for pod in pods {
        for container in usage(pod) {
            let (_, bytes) = amounts(&container);
            bytes_of_node = bytes_of_node.saturating_add(bytes);
            let (name, namespace, pod) = (&container.container, pod.namespace(), pod.name());
            let labels = format!("container=\"{name}\",namespace=\"{namespace}\",pod=\"{pod}\"");
            lines.push_str(&format!("container_memory_working_set_bytes{{{labels}}} {bytes}\n"));
        }
    }
    lines.push_str("# TYPE node_memory_working_set_bytes gauge\n");
    lines.push_str(&format!("node_memory_working_set_bytes{{node=\"{}\"}} {bytes_of_node}\n", node.name()));
    text(StatusCode::OK, lines)
}

/// CPU in nanocores, and memory in bytes.
fn amounts(usage: &ContainerUsage) -> (i64, i64) {
    (usage.cpu.milli_value().saturating_mul(1_000_000), usage.memory.value())
}
