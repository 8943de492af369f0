//! Addresses and ports of Services, each given to one at a time.
//!
//! What is taken is read from the stored Services, so there is no second truth to keep in step. Callers hold the
//! registry's lock for this, from the look until the Service is stored.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Resource;
use crate::object::tree;
use crate::random;
use crate::registry::Registry;
use crate::storage::Scope;

/// The addresses of Services: 10.96.0.0/16.
const FIRST_ADDRESS: u32 = 0x0a60_0001;
const ADDRESSES: u32 = 0xfffe;
/// The ports of Services on all nodes.
const FIRST_PORT: i64 = 30_000;
const LAST_PORT: i64 = 32_767;

/// Gives a new Service what it asks for, or something that is free.
pub(super) fn create(registry: &Registry, resource: &Resource, value: &mut Value) -> Vec<StatusCause> {
    if !resource.is("", "services") {
        return Vec::new();
    }
    let taken = Taken::read(registry, None);
    let mut causes = taken.give_address(value);
    causes.extend(taken.give_ports(value));
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
        return Taken::read(registry, Some(old.uid())).give_ports(new);
    }
    let (address, before) = (tree::text(new, &["spec", "clusterIP"]), tree::text(old, &["spec", "clusterIP"]));
    if address != before && !address.is_empty() && !before.is_empty() {
        let shown = format!("[{address:?}]");
        return vec![StatusCause::invalid("spec.clusterIPs[0]", shown, "may not change once set")];
    }
    // Ports that the request leaves out stay what they were.
    let ports: Vec<Value> = tree::items(old, &["spec", "ports"]).to_vec();
    let spec = tree::object(new, &["spec"]);
    if let Some(Value::Array(list)) = spec.get_mut("ports") {
        for port in list.iter_mut().filter(|port| tree::int(port, &["nodePort"]).unwrap_or_default() == 0) {
            let same =
                |have: &&Value| have.get("port") == port.get("port") && have.get("protocol") == port.get("protocol");
            if let Some(number) =
                ports.iter().find(same).and_then(|have| tree::int(have, &["nodePort"])).filter(|n| *n != 0)
            {
                tree::set(port, &["nodePort"], number);
            }
        }
    }
    let taken = Taken::read(registry, Some(old.uid()));
    let mut causes = taken.give_address(new);
    causes.extend(taken.give_ports(new));
    causes
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
            let service = &service.object.value;
            if but != Some(service.uid()) {
                taken.addresses.insert(tree::text(service, &["spec", "clusterIP"]).to_owned());
                let ports = tree::items(service, &["spec", "ports"]).iter();
                taken.ports.extend(ports.filter_map(|port| tree::int(port, &["nodePort"])));
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

    fn give_ports(&self, service: &mut Value) -> Vec<StatusCause> {
        let kind = tree::text(service, &["spec", "type"]).to_owned();
        let has_node_ports = match &*kind {
            "NodePort" => true,
            "LoadBalancer" => {
                tree::get(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false))
            }
            _ => false,
        };
        let mut given = HashSet::new();
        let mut causes = Vec::new();
        let Some(Value::Array(ports)) = tree::object(service, &["spec"]).get_mut("ports") else { return causes };
        for (index, port) in ports.iter_mut().enumerate() {
            let asked = tree::int(port, &["nodePort"]).unwrap_or_default();
            if !matches!(&*kind, "NodePort" | "LoadBalancer") {
                tree::remove(port, &["nodePort"]);
                continue;
            }
            let field = format!("spec.ports[{index}].nodePort");
            if asked != 0 {
                if !(FIRST_PORT..=LAST_PORT).contains(&asked) {
                    let why = format!(
                        "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
                    );
                    causes.push(StatusCause::invalid(field, asked, &why));
                } else if self.ports.contains(&asked) {
                    causes.push(StatusCause::invalid(field, asked, "provided port is already allocated"));
                }
                given.insert(asked);
            } else if has_node_ports {
                let count = LAST_PORT - FIRST_PORT + 1;
                let start = (random::number() % count as u64) as i64;
                let free = (0..count).map(|step| FIRST_PORT + (start + step) % count);
                let free = free.into_iter().find(|port| !self.ports.contains(port) && !given.contains(port));
                let Some(free) = free else { continue };
                given.insert(free);
                tree::set(port, &["nodePort"], free);
            }
        }
        causes
    }
}
