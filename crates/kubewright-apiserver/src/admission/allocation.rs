//! Allocates cluster IPs and node ports of Services.
//!
//! An index over the stored objects knows the numbers in use. Callers hold the allocation lock from
//! the lookup until the Service is stored, so no number is allocated twice. Servers over one
//! database also write what they allocate together with the Service
//! (`kubewright_objects::service_numbers`).

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::MutexGuard;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::admission::state::ClusterState;
use kubewright_objects::object::{text_map, tree};
use kubewright_objects::random;
use kubewright_objects::service_numbers::{HEALTH_PORT, PORTS, ServiceNumbers, address, ports};
use kubewright_resources::catalog::Resource;

/// The state that gives Services their numbers.
pub(crate) trait ServiceState: ClusterState {
    /// The addresses and ports of stored Services.
    fn services(&self) -> MutexGuard<'_, ServiceNumbers>;
}

/// Allocates the requested or free numbers of a new Service.
pub(super) fn create(cluster: &dyn ServiceState, resource: &Resource, value: &mut Value) -> Vec<StatusCause> {
    if !resource.is("", "services") {
        return Vec::new();
    }
    let causes = families(value);
    if !causes.is_empty() {
        return causes;
    }
    let allocated = AllocatedNumbers::read(cluster, None);
    let mut causes = allocated.allocate_address(value);
    causes.extend(allocated.allocate_ports(value, PortSharing::OnePerNumber));
    causes
}

/// Allocates and releases numbers for an updated Service.
pub(super) fn update(
    cluster: &dyn ServiceState,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
) -> Vec<StatusCause> {
    if !resource.is("", "services") {
        return Vec::new();
    }
    if tree::text(new, &["spec", "type"]) == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            tree::remove(new, &["spec", field]);
        }
        return AllocatedNumbers::read(cluster, Some(old)).allocate_ports(new, PortSharing::None);
    }
    let (address, before) = (tree::text(new, &["spec", "clusterIP"]), tree::text(old, &["spec", "clusterIP"]));
    if address != before && !address.is_empty() && !before.is_empty() {
        let shown = format!("[{address:?}]");
        return vec![StatusCause::invalid("spec.clusterIPs[0]", shown, "may not change once set")];
    }
    let [same_families, same_policy] = ["ipFamilies", "ipFamilyPolicy"]
        .map(|field| tree::get(new, &["spec", field]) == tree::get(old, &["spec", field]));
    if same_families && tree::text(new, &["spec", "ipFamilyPolicy"]) == "SingleStack" {
        // `SingleStack` keeps the first family only.
        let first = tree::items(new, &["spec", "ipFamilies"]).first().cloned();
        tree::set(new, &["spec", "ipFamilies"], Vec::from_iter(first));
    }
    // A Service without a selector may use IP families that the cluster does not have.
    let [selects, selected] =
        [&*new, old].map(|service| !text_map(tree::get(service, &["spec", "selector"])).is_empty());
    if !same_families || !same_policy || selects != selected {
        let causes = families(new);
        if !causes.is_empty() {
            return causes;
        }
    }
    // Keep the node ports that the request omits, unless it assigns them to other ports.
    let mut before: HashMap<(Option<i64>, &str), i64> = HashMap::new();
    for port in tree::items(old, &["spec", "ports"]) {
        before.entry(number_and_protocol(port)).or_insert(tree::int(port, &["nodePort"]).unwrap_or_default());
    }
    let used = node_ports(new);
    let spec = tree::object_mut(new, &["spec"]);
    if let Some(Value::Array(list)) = spec.get_mut("ports") {
        for port in list.iter_mut().filter(|port| tree::int(port, &["nodePort"]).unwrap_or_default() == 0) {
            let number = before.get(&number_and_protocol(port)).copied().unwrap_or_default();
            if number != 0 && !used.contains(&number) {
                tree::set(port, &["nodePort"], number);
            }
        }
    }
    let asked = tree::int(new, &["spec", HEALTH_PORT]).unwrap_or_default();
    if let Some(port) = tree::int(old, &["spec", HEALTH_PORT]).filter(|_| asked == 0) {
        tree::set(new, &["spec", HEALTH_PORT], port);
    }
    let allocated = AllocatedNumbers::read(cluster, Some(old));
    let mut causes = allocated.allocate_address(new);
    causes.extend(allocated.allocate_ports(new, PortSharing::None));
    causes
}

fn number_and_protocol(port: &Value) -> (Option<i64>, &str) {
    (tree::int(port, &["port"]), tree::text(port, &["protocol"]))
}

/// Validates the requested IP families. This server has IPv4 only.
fn families(service: &Value) -> Vec<StatusCause> {
    const POLICY: &str = "spec.ipFamilyPolicy";
    let Some(spec) = service.get("spec").filter(|spec| tree::text(spec, &["type"]) != "ExternalName") else {
        return Vec::new();
    };
    let (policy, families) = (tree::text(spec, &["ipFamilyPolicy"]), tree::items(spec, &["ipFamilies"]));
    let complain = |why: &str| StatusCause::invalid(POLICY, format!("{policy:?}"), why);
    if policy == "SingleStack" {
        let twice = [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")].into_iter();
        let twice = twice.filter(|(field, _)| tree::items(spec, &[field]).len() == 2);
        let why = |what| format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        let causes: Vec<_> = twice.map(|(_, what)| complain(&why(what))).collect();
        if !causes.is_empty() {
            return causes;
        }
    }
    if tree::text(spec, &["clusterIP"]) == "None" && text_map(spec.get("selector")).is_empty() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if policy == "RequireDualStack" {
        causes.push(complain("this cluster is not configured for dual-stack services"));
    }
    let foreign = families.iter().enumerate().filter(|(_, family)| family.as_str() != Some("IPv4"));
    causes.extend(foreign.map(|(index, family)| {
        StatusCause::invalid(format!("spec.ipFamilies[{index}]"), family, "not configured on this cluster")
    }));
    causes
}

/// How the ports of a Service share node ports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortSharing {
    /// Ports of the same number with different protocols.
    OnePerNumber,
    None,
}

/// The numbers that other Services use.
struct AllocatedNumbers<'r> {
    cluster: &'r dyn ServiceState,
    /// The numbers of the Service itself. Another Service that uses them as well is ignored.
    own_address: Option<u32>,
    own_ports: HashSet<u32>,
}

impl<'r> AllocatedNumbers<'r> {
    /// Excludes the numbers of `own`, the stored version of the Service.
    fn read(cluster: &'r dyn ServiceState, own: Option<&Value>) -> Self {
        let own_address = own.and_then(address);
        let own_ports = own.into_iter().flat_map(ports).collect();
        AllocatedNumbers { cluster, own_address, own_ports }
    }

    fn has_address(&self, number: u32) -> bool {
        self.own_address != Some(number) && self.cluster.services().is_address_used(number)
    }

    fn has_port(&self, number: u32) -> bool {
        !self.own_ports.contains(&number) && self.cluster.services().is_port_used(number)
    }

    fn allocate_address(&self, service: &mut Value) -> Vec<StatusCause> {
        if tree::text(service, &["spec", "type"]) == "ExternalName" {
            return Vec::new();
        }
        let asked = tree::text(service, &["spec", "clusterIP"]).to_owned();
        let address = match asked.as_str() {
            "None" => asked,
            "" => match self.free_address() {
                Some(address) => address.to_string(),
                None => {
                    return vec![StatusCause::invalid(
                        "spec.clusterIPs",
                        "[]",
                        "failed to allocate an IP: range is full",
                    )];
                }
            },
            text => {
                let number = text.parse::<Ipv4Addr>().map(u32::from).unwrap_or_default();
                let shown = format!("[{text:?}]");
                let range = self.cluster.services().range();
                if !range.assignable().contains(&number) {
                    let problem = if range.contains(number) {
                        // The first and the last address of the network.
                        format!("the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}")
                    } else {
                        "the provided network does not match the current range".to_owned()
                    };
                    let why = format!("failed to allocate IP {text}: {problem}");
                    return vec![StatusCause::invalid("spec.clusterIPs", shown, &why)];
                }
                if self.has_address(number) {
                    let why = format!("failed to allocate IP {text}: provided IP is already allocated");
                    return vec![StatusCause::invalid("spec.clusterIPs", shown, &why)];
                }
                asked
            }
        };
        tree::set(service, &["spec", "clusterIPs"], tree::list([address.as_str()]));
        tree::set(service, &["spec", "clusterIP"], address);
        Vec::new()
    }

    /// A random free cluster IP. The first address is reserved for the API server.
    fn free_address(&self) -> Option<Ipv4Addr> {
        let services = self.cluster.services();
        let reserved = services.range().assignable().start;
        let free = services.free_address(random::number(), |number| number != reserved);
        free.map(Ipv4Addr::from)
    }

    fn allocate_ports(&self, service: &mut Value, sharing: PortSharing) -> Vec<StatusCause> {
        let kind = tree::text(service, &["spec", "type"]).to_owned();
        let has_node_ports = match &*kind {
            "NodePort" => true,
            "LoadBalancer" => {
                tree::get(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false))
            }
            _ => false,
        };
        let mut given = node_ports(service);
        given.extend(tree::int(service, &["spec", HEALTH_PORT]));
        let mut causes = Vec::new();
        let mut shared = SharedNodePorts::default();
        if sharing == PortSharing::OnePerNumber {
            tree::items(service, &["spec", "ports"]).iter().for_each(|port| shared.note(port));
        }
        let ports = match tree::object_mut(service, &["spec"]).get_mut("ports") {
            Some(Value::Array(ports)) => ports.iter_mut().enumerate().collect(),
            _ => Vec::new(),
        };
        for (index, port) in ports {
            let asked = tree::int(port, &["nodePort"]).unwrap_or_default();
            if !matches!(&*kind, "NodePort" | "LoadBalancer") {
                tree::remove(port, &["nodePort"]);
                continue;
            }
            if asked != 0 {
                causes.extend(self.complaint(&format!("spec.ports[{index}].nodePort"), asked));
            } else if has_node_ports {
                let known = shared.of(port);
                let Some(free) = known.or_else(|| self.free_port(&given)) else { continue };
                given.insert(free);
                tree::set(port, &["nodePort"], free);
                if sharing == PortSharing::OnePerNumber {
                    shared.note(port);
                }
            }
        }
        causes.extend(self.allocate_health_port(service, &given));
        causes
    }

    fn allocate_health_port(&self, service: &mut Value, given: &HashSet<i64>) -> Option<StatusCause> {
        let is_needed = tree::text(service, &["spec", "type"]) == "LoadBalancer"
            && tree::text(service, &["spec", "externalTrafficPolicy"]) == "Local";
        match tree::int(service, &["spec", HEALTH_PORT]).filter(|port| *port != 0) {
            _ if !is_needed => drop(tree::remove(service, &["spec", HEALTH_PORT])),
            Some(asked) if has_node_port(service, asked) => {
                let why = "provided port is already allocated";
                return Some(StatusCause::invalid("spec.healthCheckNodePort", asked, why));
            }
            Some(asked) => return self.complaint("spec.healthCheckNodePort", asked),
            None => {
                if let Some(free) = self.free_port(given) {
                    tree::set(service, &["spec", HEALTH_PORT], free);
                }
            }
        }
        None
    }

    /// Why a requested node port is not available.
    fn complaint(&self, field: &str, asked: i64) -> Option<StatusCause> {
        let Some(number) = u32::try_from(asked).ok().filter(|number| PORTS.contains(number)) else {
            let range = format!("The range of valid ports is {}-{}", PORTS.start, PORTS.end - 1);
            let why = format!("provided port is not in the valid range. {range}");
            return Some(StatusCause::invalid(field, asked, &why));
        };
        self.has_port(number).then(|| StatusCause::invalid(field, asked, "provided port is already allocated"))
    }

    /// A free node port that is not in `given`.
    fn free_port(&self, given: &HashSet<i64>) -> Option<i64> {
        let services = self.cluster.services();
        let free = services.free_port(random::number(), |number| !given.contains(&i64::from(number)));
        free.map(i64::from)
    }
}

/// Node ports by port number, for ports that share one across protocols.
#[derive(Default)]
struct SharedNodePorts {
    /// By port number.
    on_nodes: HashMap<i64, i64>,
    /// Protocols and node ports in use.
    used: HashSet<(String, i64)>,
}

impl SharedNodePorts {
    fn note(&mut self, port: &Value) {
        let numbers = tree::int(port, &["port"]).zip(tree::int(port, &["nodePort"]));
        if let Some((number, on_nodes)) = numbers.filter(|(_, on_nodes)| *on_nodes != 0) {
            self.on_nodes.entry(number).or_insert(on_nodes);
            self.used.insert((tree::text(port, &["protocol"]).to_owned(), on_nodes));
        }
    }

    /// The node port of other ports with this number, if its protocol is still free there.
    fn of(&self, port: &Value) -> Option<i64> {
        let on_nodes = self.on_nodes.get(&tree::int(port, &["port"])?).copied()?;
        let protocol = tree::text(port, &["protocol"]).to_owned();
        (!self.used.contains(&(protocol, on_nodes))).then_some(on_nodes)
    }
}

/// The node ports that a Service requests.
fn node_ports(service: &Value) -> HashSet<i64> {
    let ports = tree::items(service, &["spec", "ports"]).iter();
    ports.filter_map(|port| tree::int(port, &["nodePort"]).filter(|number| *number != 0)).collect()
}

/// Whether a port of a Service has this node port.
fn has_node_port(service: &Value, number: i64) -> bool {
    tree::items(service, &["spec", "ports"]).iter().any(|port| tree::int(port, &["nodePort"]) == Some(number))
}
