//! The simulated cluster, as its network sees it.

use std::sync::Arc;

use kubewright_api::core::v1::{Node, Pod};
use kubewright_cache::Lister;
use kubewright_core::{Object, Selector};
use kubewright_kubelet::{ClusterNetwork, ClusterView};

use super::heartbeat::{has_failed, slowdown};
use super::registration::SIMULATED;
use crate::context::ControllerContext;
use crate::indices;
use crate::pods::node_name;

/// The network of the simulated nodes of these controllers: their kubelets, and their pods.
///
/// The owner of the API server connects it with `RunningServer::connect_network`. Then logs, exec,
/// attach, port-forward and proxies work on simulated pods.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kubewright_apiserver::ApiServer;
/// use kubewright_controllers::{ControllerSet, nodes};
///
/// let server = ApiServer::in_memory().start().await?;
/// let controllers = ControllerSet::new(&server.client()).start();
/// server.connect_network(nodes::network(controllers.context()));
/// // … kubectl logs, kubectl exec …
/// controllers.stop().await?;
/// server.stop().await;
/// # Ok(()) }
/// ```
pub fn network(context: &ControllerContext) -> ClusterNetwork {
    let (pods, nodes) = (context.factory().informer::<Pod>(), context.factory().informer::<Node>());
    let cluster = SimulatedCluster { pods: pods.lister(), nodes: nodes.lister() };
    ClusterNetwork::new(cluster, Arc::clone(&context.container_files))
}

struct SimulatedCluster {
    pods: Lister<Pod>,
    nodes: Lister<Node>,
}

impl ClusterView for SimulatedCluster {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.namespace(namespace).get(name)
    }

    fn pod_of_address(&self, address: &str) -> Option<Arc<Pod>> {
        let pods = indices::of_address(&self.pods, address);
        let is_alone = |pod: &&Arc<Pod>| pod.spec.as_ref().is_some_and(|spec| spec.host_network != Some(true));
        // A node that has failed takes its pods with it.
        pods.iter().filter(is_alone).find(|pod| self.node(node_name(pod)).is_some()).cloned()
    }

    fn pods_of_node(&self, node: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.list(&Selector::everything());
        pods.retain(|pod| node_name(pod) == node);
        pods
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(name).filter(|node| node.labels().get(SIMULATED) == Some("true") && !has_failed(node))
    }

    fn slowdown(&self, node: &str) -> f64 {
        self.nodes.get(node).map_or(1.0, |node| slowdown(&node))
    }
}
