//! Ports of the node that pods use.

use kubewright_api::core::v1::{Container, ContainerPort, Pod};
use kubewright_core::Str;

use super::resources::is_sidecar;

/// The address that stands for all addresses of a node.
const ANY: &str = "0.0.0.0";

/// A port of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodes) struct HostPort {
    port: i32,
    protocol: Str,
    address: Str,
}

impl HostPort {
    /// Whether two pods with these ports cannot run on one node.
    pub(in crate::nodes) fn conflicts_with(&self, other: &HostPort) -> bool {
        let (own, others) = (&*self.address, &*other.address);
        self.port == other.port && self.protocol == other.protocol && (own == others || own == ANY || others == ANY)
    }
}

/// The host ports of the containers and sidecars of a pod.
#[doc(alias = "GetHostPorts")]
pub(in crate::nodes) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let containers = pod.spec.iter().flat_map(|spec| {
        let sidecars = spec.init_containers.iter().filter(|container| is_sidecar(container));
        spec.containers.iter().chain(sidecars)
    });
    containers.flat_map(|container: &Container| container.ports.iter()).filter_map(host_port).collect()
}

fn host_port(port: &ContainerPort) -> Option<HostPort> {
    let number = port.host_port.filter(|number| *number > 0)?;
    let text = |text: &Option<Str>, default: &str| match text.as_deref() {
        None | Some("") => default.into(),
        Some(text) => text.into(),
    };
    Some(HostPort { port: number, protocol: text(&port.protocol, "TCP"), address: text(&port.host_ip, ANY) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::scheduler::fixtures::pod;

    #[test]
    fn ports_conflict_on_the_same_address() {
        let ports = |port: &str| {
            let spec = format!(r#"{{"containers":[{{"name":"a","ports":[{{"containerPort":1{port}}}]}}]}}"#);
            host_ports(&pod(&format!(r#"{{"spec":{spec}}}"#)))
        };
        for (one, other, want) in [
            ("", r#","hostPort":80"#, false),
            (r#","hostPort":80"#, r#","hostPort":80,"protocol":"TCP""#, true),
            (r#","hostPort":80"#, r#","hostPort":81"#, false),
            (r#","hostPort":80"#, r#","hostPort":80,"protocol":"UDP""#, false),
            (r#","hostPort":80,"hostIP":"10.0.0.1""#, r#","hostPort":80"#, true),
            (r#","hostPort":80,"hostIP":"10.0.0.1""#, r#","hostPort":80,"hostIP":"10.0.0.2""#, false),
            (r#","hostPort":80,"hostIP":"10.0.0.1""#, r#","hostPort":80,"hostIP":"10.0.0.1""#, true),
        ] {
            let (one, other) = (ports(one), ports(other));
            let conflict = one.iter().any(|port| other.iter().any(|other| port.conflicts_with(other)));
            assert_eq!(conflict, want, "{one:?} {other:?}");
        }
    }
}
