//! Resource requests of pods, and allocatable resources of nodes.

use std::collections::BTreeMap;

use kubewright_api::core::v1::{Container, Node, Pod, PodSpec, ResourceRequirements};
use kubewright_core::{Map, Quantity, Str};

pub(in crate::nodes) const CPU: &str = "cpu";
pub(in crate::nodes) const MEMORY: &str = "memory";
const PODS: &str = "pods";

/// Requests that scores assume for containers without any: 100 millicores and 200 MiB.
#[doc(alias = "DefaultMilliCPURequest")]
const ASSUMED: [(&str, i64); 2] = [(CPU, 100), (MEMORY, 200 * 1024 * 1024)];

/// Amounts by resource name: CPU in millicores, others in units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::nodes) struct Amounts(BTreeMap<Str, i64>);

impl Amounts {
    fn of(quantities: &Map<Quantity>) -> Self {
        let amount = |name: &Str, quantity: &Quantity| {
            if *name == *CPU { quantity.milli_value() } else { quantity.value() }
        };
        Amounts(quantities.iter().map(|(name, quantity)| (name.clone(), amount(name, quantity))).collect())
    }

    /// The amount of a resource; zero if absent.
    pub(in crate::nodes) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(in crate::nodes) fn add(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_add);
    }

    pub(in crate::nodes) fn subtract(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_sub);
    }

    fn raise_to(&mut self, other: &Amounts) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Amounts, with: impl Fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            let have = self.0.entry(name.clone()).or_default();
            *have = with(*have, *amount);
        }
    }

    /// Resources of which a node with `used` has too little, and whether it could ever have enough.
    pub(in crate::nodes) fn insufficient<'a>(
        &'a self,
        allocatable: &'a Amounts,
        used: &'a Amounts,
    ) -> impl Iterator<Item = (&'a Str, bool)> {
        let lacks = |name: &str, wanted: i64| {
            let free = allocatable.get(name).saturating_sub(used.get(name));
            (wanted > 0 && wanted > free).then(|| wanted <= allocatable.get(name))
        };
        self.0.iter().filter_map(move |(name, wanted)| Some((name, lacks(name, *wanted)?)))
    }
}

/// The resources of a node that pods can request.
pub(in crate::nodes) fn allocatable(node: &Node) -> Amounts {
    node.status.as_ref().map(|status| Amounts::of(&status.allocatable)).unwrap_or_default()
}

/// The pod capacity of a node; unlimited if not stated.
pub(in crate::nodes) fn pod_capacity(node: &Node) -> usize {
    let pods = node.status.as_ref().and_then(|status| status.allocatable.get(PODS));
    pods.map_or(usize::MAX, |pods| usize::try_from(pods.value()).unwrap_or_default())
}

/// The resources that a pod reserves on its node.
///
/// Sidecars run beside the containers. Other init containers run one at a time, beside the sidecars
/// that were started before them. Requests of the whole pod take precedence.
#[doc(alias = "PodRequests")]
pub(in crate::nodes) fn requests(pod: &Pod) -> Amounts {
    total(pod, |container| requested(container.resources.as_deref()))
}

/// The requests that scores count: containers without a request need something as well.
#[doc(alias = "GetNonzeroRequests")]
pub(in crate::nodes) fn assumed_requests(pod: &Pod) -> Amounts {
    total(pod, |container| {
        let mut amounts = requested(container.resources.as_deref());
        for (name, amount) in ASSUMED {
            amounts.0.entry(name.into()).or_insert(amount);
        }
        amounts
    })
}

fn total(pod: &Pod, of_container: impl Fn(&Container) -> Amounts) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::default() };
    let mut total = Amounts::default();
    spec.containers.iter().for_each(|container| total.add(&of_container(container)));
    let (mut sidecars, mut peak) = (Amounts::default(), Amounts::default());
    for container in &spec.init_containers {
        let amounts = of_container(container);
        if is_sidecar(container) {
            total.add(&amounts);
            sidecars.add(&amounts);
            peak.raise_to(&sidecars);
        } else {
            let mut with_sidecars = sidecars.clone();
            with_sidecars.add(&amounts);
            peak.raise_to(&with_sidecars);
        }
    }
    total.raise_to(&peak);
    total.0.extend(of_whole_pod(spec).0);
    total.add(&Amounts::of(&spec.overhead));
    total
}

/// Whether an init container keeps running.
pub(in crate::nodes) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn requested(resources: Option<&ResourceRequirements>) -> Amounts {
    resources.map(|resources| Amounts::of(&resources.requests)).unwrap_or_default()
}

fn of_whole_pod(spec: &PodSpec) -> Amounts {
    requested(spec.resources.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::scheduler::fixtures::pod;

    #[test]
    fn a_pod_requests_the_peak_of_its_phases() {
        for (spec, cpu, memory) in [
            (r#"{"containers":[{"name":"a"}]}"#, 0, 0),
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}},
                {"name":"b","resources":{"requests":{"cpu":"500m","memory":"1k"}}}]}"#,
                1500,
                1000,
            ),
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],"overhead":{"cpu":"250m"}}"#,
                1250,
                0,
            ),
            // Init containers run one at a time.
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"10"}}}],
                "initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}},
                {"name":"j","resources":{"requests":{"cpu":"2"}}}]}"#,
                3000,
                10,
            ),
            // A sidecar runs beside later init containers and beside the containers.
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],
                "initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}},
                {"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
                {"name":"j","resources":{"requests":{"cpu":"2"}}}]}"#,
                4000,
                0,
            ),
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"10"}}}],
                "resources":{"requests":{"cpu":"4"}}}"#,
                4000,
                10,
            ),
        ] {
            let requests = requests(&pod(&format!(r#"{{"spec":{spec}}}"#)));
            assert_eq!((requests.get(CPU), requests.get(MEMORY)), (cpu, memory), "{spec}");
        }
    }

    #[test]
    fn resources_can_be_short_now_or_for_ever() {
        let amounts = |cpu: i64, gpu: i64| Amounts([(CPU.into(), cpu), ("example.com/gpu".into(), gpu)].into());
        let (allocatable, used) = (amounts(4000, 1), amounts(3000, 1));
        for (wanted, want) in [
            (amounts(1000, 0), &[][..]),
            (amounts(0, 0), &[]),
            (amounts(1001, 0), &[(CPU, true)]),
            (amounts(4001, 1), &[(CPU, false), ("example.com/gpu", true)]),
            (amounts(0, 2), &[("example.com/gpu", false)]),
        ] {
            let lacking: Vec<_> = wanted.insufficient(&allocatable, &used).map(|(name, can)| (&**name, can)).collect();
            assert_eq!(lacking, want, "{wanted:?}");
        }
    }
}
