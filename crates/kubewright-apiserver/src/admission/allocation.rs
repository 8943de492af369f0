//! Addresses and ports of Services, each given to one at a time.
//!
//! What is taken is read from the stored Services, so there is no second truth to keep in step. Callers hold the
//! registry's lock for this, from the look until the Service is stored.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Resource;
use crate::object::{text_map, tree};
use crate::random;
use crate::registry::Registry;
use crate::storage::Scope;

/// The addresses of Services: 10.96.0.0/16.
const FIRST_ADDRESS: u32 = 0x0a60_0001;
const ADDRESSES: u32 = 0xfffe;
/// The ports of Services on all nodes.
const FIRST_PORT: i64 = 30_000;
const LAST_PORT: i64 = 32_767;

/// Where a load balancer asks a node whether it has pods of a Service that it does not pass on to others.
const HEALTH_PORT: &str = "healthCheckNodePort";

/// Gives a new Service what it asks for, or something that is free.
pub(super) fn create(registry: &Registry, resource: &Resource, value: &mut Value) -> Vec<StatusCause> {
    if !resource.is("", "services") {
        return Vec::new();
    }
    let causes = families(value);
    if !causes.is_empty() {
        return causes;
    }
    let taken = Taken::read(registry, None);
    let mut causes = taken.give_address(value);
    causes.extend(taken.give_ports(value, Sharing::OnePerNumber));
    causes
}

/// Gives a changed Service what it needs now, and takes back what it does not.
pub(super) fn update(registry: &Registry, resource: &Resource, old: &Value, new: &mut Value) -> Vec<StatusCause> {
    use crate::object::Meta;
    if !resource.is("", "services") {
        return Vec::new();
    }
    if tree::text(new, &["spec", "type"]) == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            tree::remove(new, &["spec", field]);
        }
        return Taken::read(registry, Some(old.uid())).give_ports(new, Sharing::None);
    }
    let (address, before) = (tree::text(new, &["spec", "clusterIP"]), tree::text(old, &["spec", "clusterIP"]));
    if address != before && !address.is_empty() && !before.is_empty() {
        let shown = format!("[{address:?}]");
        return vec![StatusCause::invalid("spec.clusterIPs[0]", shown, "may not change once set")];
    }
    let [same_families, same_policy] = ["ipFamilies", "ipFamilyPolicy"]
        .map(|field| tree::get(new, &["spec", field]) == tree::get(old, &["spec", field]));
    if same_families && tree::text(new, &["spec", "ipFamilyPolicy"]) == "SingleStack" {
        // Who wants one family now means the first.
        let first = tree::items(new, &["spec", "ipFamilies"]).first().cloned();
        tree::set(new, &["spec", "ipFamilies"], Vec::from_iter(first));
    }
    // Without a selector a Service may have families that the cluster has not.
    let [selects, selected] =
        [&*new, old].map(|service| !text_map(tree::get(service, &["spec", "selector"])).is_empty());
    if !same_families || !same_policy || selects != selected {
        let causes = families(new);
        if !causes.is_empty() {
            return causes;
        }
    }
    // Ports that the request leaves out stay what they were, unless it gives them to others.
    let ports: Vec<Value> = tree::items(old, &["spec", "ports"]).to_vec();
    let used = node_ports(new);
    let spec = tree::object(new, &["spec"]);
    if let Some(Value::Array(list)) = spec.get_mut("ports") {
        for port in list.iter_mut().filter(|port| tree::int(port, &["nodePort"]).unwrap_or_default() == 0) {
            let same =
                |have: &&Value| have.get("port") == port.get("port") && have.get("protocol") == port.get("protocol");
            if let Some(number) = ports
                .iter()
                .find(same)
                .and_then(|have| tree::int(have, &["nodePort"]))
                .filter(|n| *n != 0 && !used.contains(n))
            {
                tree::set(port, &["nodePort"], number);
            }
        }
    }
    let asked = tree::int(new, &["spec", HEALTH_PORT]).unwrap_or_default();
    if let Some(port) = tree::int(old, &["spec", HEALTH_PORT]).filter(|_| asked == 0) {
        tree::set(new, &["spec", HEALTH_PORT], port);
    }
    let taken = Taken::read(registry, Some(old.uid()));
    let mut causes = taken.give_address(new);
    causes.extend(taken.give_ports(new, Sharing::None));
    causes
}

/// What is wrong with the families of addresses that a Service asks for: there is one here.
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

/// Which ports of a Service get the same port on all nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// Those of the same number, each for a protocol of its own.
    OnePerNumber,
    None,
}

/// What other Services have.
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
}

impl Taken {
    fn read(registry: &Registry, but: Option<&str>) -> Self {
        use crate::object::Meta;
        let mut taken = Taken { addresses: HashSet::new(), ports: HashSet::new() };
        for service in registry.all(&Scope::resource("services")) {
            let service = service.object.value();
            if but != Some(service.uid()) {
                taken.addresses.insert(tree::text(service, &["spec", "clusterIP"]).to_owned());
                let ports = tree::items(service, &["spec", "ports"]).iter();
                taken.ports.extend(ports.filter_map(|port| tree::int(port, &["nodePort"])));
                taken.ports.extend(tree::int(service, &["spec", HEALTH_PORT]));
            }
        }
        taken
    }

    fn give_address(&self, service: &mut Value) -> Vec<StatusCause> {
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
                if !(FIRST_ADDRESS..FIRST_ADDRESS + ADDRESSES).contains(&number) {
                    let why = format!(
                        "failed to allocate IP {text}: the provided IP ({text}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
                    );
                    return vec![StatusCause::invalid("spec.clusterIPs", shown, &why)];
                }
                if self.addresses.contains(text) {
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

    fn free_address(&self) -> Option<Ipv4Addr> {
        let start = (random::number() % u64::from(ADDRESSES)) as u32;
        let all = (0..ADDRESSES).map(|step| Ipv4Addr::from(FIRST_ADDRESS + (start + step) % ADDRESSES));
        // The first one is for the API server itself.
        all.skip_while(|address| u32::from(*address) == FIRST_ADDRESS)
            .find(|address| !self.addresses.contains(&address.to_string()))
    }

    fn give_ports(&self, service: &mut Value, sharing: Sharing) -> Vec<StatusCause> {
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
        let mut shared = Shared::default();
        if sharing == Sharing::OnePerNumber {
            tree::items(service, &["spec", "ports"]).iter().for_each(|port| shared.note(port));
        }
        let ports = match tree::object(service, &["spec"]).get_mut("ports") {
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
                if sharing == Sharing::OnePerNumber {
                    shared.note(port);
                }
            }
        }
        causes.extend(self.give_health_port(service, &given));
        causes
    }

    fn give_health_port(&self, service: &mut Value, given: &HashSet<i64>) -> Option<StatusCause> {
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

    /// Why a Service cannot have the port that it asks for.
    fn complaint(&self, field: &str, asked: i64) -> Option<StatusCause> {
        if !(FIRST_PORT..=LAST_PORT).contains(&asked) {
            let range = format!("The range of valid ports is {FIRST_PORT}-{LAST_PORT}");
            let why = format!("provided port is not in the valid range. {range}");
            return Some(StatusCause::invalid(field, asked, &why));
        }
        self.ports.contains(&asked).then(|| StatusCause::invalid(field, asked, "provided port is already allocated"))
    }

    fn free_port(&self, given: &HashSet<i64>) -> Option<i64> {
        let count = LAST_PORT - FIRST_PORT + 1;
        let start = (random::number() % count as u64) as i64;
        let mut all = (0..count).map(|step| FIRST_PORT + (start + step) % count);
        all.find(|port| !self.ports.contains(port) && !given.contains(port))
    }
}

/// A port is the same on all nodes for each protocol, if nobody wants it otherwise.
#[derive(Default)]
struct Shared {
    /// By number.
    on_nodes: HashMap<i64, i64>,
    /// Protocols of ports on nodes that are in use.
    used: HashSet<(String, i64)>,
}

impl Shared {
    fn note(&mut self, port: &Value) {
        let numbers = tree::int(port, &["port"]).zip(tree::int(port, &["nodePort"]));
        if let Some((number, on_nodes)) = numbers.filter(|(_, on_nodes)| *on_nodes != 0) {
            self.on_nodes.entry(number).or_insert(on_nodes);
            self.used.insert((tree::text(port, &["protocol"]).to_owned(), on_nodes));
        }
    }

    /// The port on nodes that others of this number have, and this one can have as well.
    fn of(&self, port: &Value) -> Option<i64> {
        let on_nodes = self.on_nodes.get(&tree::int(port, &["port"])?).copied()?;
        let protocol = tree::text(port, &["protocol"]).to_owned();
        (!self.used.contains(&(protocol, on_nodes))).then_some(on_nodes)
    }
}

/// The ports on all nodes that a Service asks for.
fn node_ports(service: &Value) -> HashSet<i64> {
    let ports = tree::items(service, &["spec", "ports"]).iter();
    ports.filter_map(|port| tree::int(port, &["nodePort"]).filter(|number| *number != 0)).collect()
}

/// Whether one of the ports of a Service has this number on all nodes.
fn has_node_port(service: &Value, number: i64) -> bool {
    tree::items(service, &["spec", "ports"]).iter().any(|port| tree::int(port, &["nodePort"]) == Some(number))
}
