//! Creates node objects, keeps them ready, and deletes surplus ones.

use kubewright_api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo,
};
use kubewright_client::{Api, Client};
use kubewright_core::options::ListOptions;
use kubewright_core::{List, Map, Object, Quantity, Str, Time};

use super::options::NodeOptions;
use crate::deletion::delete_exactly;
use crate::error::Error;
use kubewright_client::clock;

/// The label of simulated nodes.
pub(super) const SIMULATED: &str = "kubewright.dev/simulated";

/// The port of kubelets.
const KUBELET_PORT: i32 = 10250;

/// Creates missing nodes, makes all of them ready, and deletes surplus ones of an earlier start.
pub(super) async fn register(client: &Client, options: &NodeOptions) -> Result<(), Error> {
    let nodes = Api::<Node>::all(client);
    for node in nodes.list(&ListOptions::default()).await?.items {
        if options.is_former(node.name()) && node.labels().get(SIMULATED) == Some("true") {
            delete_exactly(&nodes, &node).await?;
        }
    }
    for (number, name) in (1..).zip(options.names()) {
        match nodes.create(&node(&name, number)).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            _ => {}
        }
        // Only we write the status of a simulated node, but users label and cordon it.
        loop {
            let mut node = nodes.get(&name).await?;
            node.status = Some(status(&name, number, clock::now()));
            match nodes.update_status(&node).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
    }
    Ok(())
}

fn node(name: &str, number: u32) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(name.into());
    node.metadata.labels = Map::from([
        ("kubernetes.io/hostname", Str::from(name)),
        ("kubernetes.io/os", "linux".into()),
        ("kubernetes.io/arch", "amd64".into()),
        (SIMULATED, "true".into()),
    ]);
    let range = format!("10.{}.0.0/16", pod_network(number));
    node.spec = Some(NodeSpec {
        pod_cidrs: [Str::from(range.as_str())].into(),
        pod_cidr: Some(range.into()),
        ..Default::default()
    });
    node
}

/// The second octet of the pod network of a node.
pub(super) fn pod_network(number: u32) -> u32 {
    128 + number % 128
}

fn status(name: &str, number: u32, now: Time) -> NodeStatus {
    let resources: Map<Quantity> = [
        ("cpu", Quantity::from(64)),
        ("memory", "256Gi".parse().unwrap_or_default()),
        ("ephemeral-storage", "1Ti".parse().unwrap_or_default()),
        ("pods", Quantity::from(10_000)),
    ]
    .into();
    let address = |type_: &str, address: Str| NodeAddress { type_: type_.into(), address };
    NodeStatus {
        capacity: resources.clone(),
        allocatable: resources,
        conditions: conditions(now),
        daemon_endpoints: Some(
            NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: KUBELET_PORT }.into()) }.into(),
        ),
        addresses: [address("InternalIP", NodeOptions::address_of(number).into()), address("Hostname", name.into())]
            .into(),
        node_info: Some(
            NodeSystemInfo {
                os_image: "kubewright".into(),
                kernel_version: "0".into(),
                container_runtime_version: concat!("kubewright://", env!("CARGO_PKG_VERSION")).into(),
                kubelet_version: "v1.36.0".into(),
                operating_system: "linux".into(),
                architecture: "amd64".into(),
                ..Default::default()
            }
            .into(),
        ),
        ..Default::default()
    }
}

/// The conditions of a ready node.
pub(super) fn conditions(now: Time) -> List<NodeCondition> {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.into(),
        status: status.into(),
        last_heartbeat_time: Some(now),
        last_transition_time: Some(now),
        reason: Some(reason.into()),
        message: Some(message.into()),
    };
    [
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    .into()
}
