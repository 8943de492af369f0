//! Pods of lower priority that would make room for an unschedulable pod.

use std::cmp::Reverse;
use std::sync::Arc;

use kubewright_api::core::v1::{Node, Pod};
use kubewright_api::policy::v1::PodDisruptionBudget;
use kubewright_core::{Object, Selector, Str, Time};

use super::filter::Filter;
use super::messages::{Rejection, unavailable};
use super::pod_info::{PodInfo, priority, selector};
use crate::pods::condition;

/// The reason of the disruption condition of victims.
pub(in crate::nodes) const PREEMPTED: &str = "PreemptionByScheduler";
/// Number of nodes that are compared, at least.
const CANDIDATES: usize = 100;

/// A node, and the pods that would have to leave it.
#[derive(Debug, Clone)]
pub(in crate::nodes) struct Candidate {
    pub(in crate::nodes) node: Str,
    /// The most important one first. Never empty.
    pub(in crate::nodes) victims: Vec<Arc<Pod>>,
    /// Victims that a disruption budget protects.
    violations: usize,
}

/// The result of a search for victims.
#[derive(Debug)]
pub(in crate::nodes) enum Preemption {
    Possible(Candidate),
    /// The pod may not preempt others, or not yet.
    Ineligible(&'static str),
    /// No pods could make room.
    Hopeless(String),
}

/// The best candidate, or why there is none.
#[doc(alias = "Preempt")]
pub(in crate::nodes) fn find(
    filter: &mut Filter<'_>,
    rejected: &[(&Arc<Node>, Rejection)],
    budgets: &[Arc<PodDisruptionBudget>],
) -> Preemption {
    if let Some(reason) = ineligible(filter, rejected) {
        return Preemption::Ineligible(reason);
    }
    let nodes = filter.cluster.nodes.len();
    let (mut candidates, mut rejections) = (Vec::new(), Vec::new());
    for (node, rejection) in rejected {
        if !rejection.is_resolvable {
            rejections.push(Rejection::unresolvable("Preemption is not helpful for scheduling"));
            continue;
        }
        match victims_on(filter, node, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(rejection) => rejections.push(rejection),
        }
        let is_enough = candidates.len() >= CANDIDATES.max(nodes / 10);
        if is_enough && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    match candidates.into_iter().min_by_key(Candidate::cost) {
        Some(best) => Preemption::Possible(best),
        None => Preemption::Hopeless(unavailable(nodes, &rejections)),
    }
}

/// Why a pod may not preempt others.
#[doc(alias = "PodEligibleToPreemptOthers")]
fn ineligible(filter: &Filter<'_>, rejected: &[(&Arc<Node>, Rejection)]) -> Option<&'static str> {
    let incoming = filter.incoming;
    if incoming.pod.spec.as_ref().is_some_and(|spec| spec.preemption_policy.as_deref() == Some("Never")) {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = filter.cluster.placements.nomination(incoming.pod.uid())?;
    let is_hopeless =
        |(node, rejection): &(&Arc<Node>, Rejection)| *nominated == *node.name() && !rejection.is_resolvable;
    if rejected.iter().any(is_hopeless) {
        return None;
    }
    let mut pods = filter.cluster.placements.load(nominated)?.pods.values();
    let is_leaving = |other: &Arc<PodInfo>| {
        let preempted = condition(&other.pod, "DisruptionTarget").and_then(|condition| condition.reason.as_deref());
        other.priority() < incoming.priority() && other.pod.is_being_deleted() && preempted == Some(PREEMPTED)
    };
    pods.any(is_leaving).then_some("not eligible due to a terminating pod on the nominated node.")
}

/// The fewest and least important pods that must leave a node. Pods protected by a disruption
/// budget are the first to stay.
#[doc(alias = "SelectVictimsOnNode")]
fn victims_on(
    filter: &mut Filter<'_>,
    node: &Arc<Node>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Candidate, Rejection> {
    let own = filter.incoming.priority();
    let mut load = filter.cluster.placements.load(node.name()).cloned().unwrap_or_default();
    let mut lesser: Vec<Arc<PodInfo>> = load.pods.values().filter(|other| other.priority() < own).cloned().collect();
    if lesser.is_empty() {
        return Err(Rejection::unresolvable("No preemption victims found for incoming pod"));
    }
    for other in &lesser {
        load.remove(other.pod.uid());
        filter.shift(other, node, -1);
    }
    if let Err(rejection) = filter.check(node, &load) {
        lesser.iter().for_each(|other| filter.shift(other, node, 1));
        return Err(rejection);
    }
    lesser.sort_by_key(|other| importance(&other.pod));
    let protected = protected(&lesser, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for wants_protected in [true, false] {
        for (other, _) in lesser.iter().zip(&protected).filter(|(_, protected)| **protected == wants_protected) {
            load.add(other);
            filter.shift(other, node, 1);
            if filter.check(node, &load).is_err() {
                load.remove(other.pod.uid());
                filter.shift(other, node, -1);
                violations += usize::from(wants_protected);
                victims.push(other.clone());
            }
        }
    }
    victims.iter().for_each(|victim| filter.shift(victim, node, 1));
    if victims.is_empty() {
        // Only the order of pods that were looked at can have changed; the next cycle finds room.
        return Err(Rejection::unresolvable("No preemption victims found for incoming pod"));
    }
    victims.sort_by_key(|victim| importance(&victim.pod));
    let victims = victims.into_iter().map(|victim| victim.pod.clone()).collect();
    Ok(Candidate { node: node.name().into(), victims, violations })
}

/// The most important pods have the highest priority, and have run for the longest time.
#[doc(alias = "MoreImportantPod")]
fn importance(pod: &Pod) -> (Reverse<i32>, bool, Option<Time>, Str) {
    let start = start_time(pod);
    (Reverse(priority(pod)), start.is_none(), start, pod.uid().into())
}

fn start_time(pod: &Pod) -> Option<Time> {
    pod.status.as_ref().and_then(|status| status.start_time)
}

/// Whether a disruption budget would protect each pod, if they left in this order.
#[doc(alias = "filterPodsWithPDBViolation")]
fn protected(pods: &[Arc<PodInfo>], budgets: &[Arc<PodDisruptionBudget>]) -> Vec<bool> {
    struct Budget<'a> {
        of: &'a PodDisruptionBudget,
        selector: Selector,
        allowed: i32,
    }
    let mut budgets: Vec<Budget<'_>> = budgets
        .iter()
        .map(|budget| Budget {
            selector: selector(budget.spec.as_ref().and_then(|spec| spec.selector.as_deref())),
            allowed: budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default(),
            of: budget,
        })
        .filter(|budget| !budget.selector.is_everything())
        .collect();
    let mut is_protected = |pod: &Pod| {
        let mut is_protected = false;
        for budget in budgets.iter_mut().filter(|budget| budget.of.namespace() == pod.namespace()) {
            let is_counted = |status: &kubewright_api::policy::v1::PodDisruptionBudgetStatus| {
                status.disrupted_pods.contains_key(pod.name())
            };
            if pod.metadata.labels.is_empty()
                || !budget.selector.matches(&pod.metadata.labels)
                || budget.of.status.as_ref().is_some_and(is_counted)
            {
                continue;
            }
            budget.allowed -= 1;
            is_protected |= budget.allowed < 0;
        }
        is_protected
    };
    pods.iter().map(|info| is_protected(&info.pod)).collect()
}

impl Candidate {
    /// Fewest violations, lowest priorities, fewest pods, and those that started last.
    #[doc(alias = "pickOneNodeForPreemption")]
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<Option<Time>>) {
        let highest = self.victims.first().map(|pod| priority(pod)).unwrap_or_default();
        // Two pods of negative priority cost more than one.
        let shifted = |pod: &Arc<Pod>| i64::from(priority(pod)) - i64::from(i32::MIN);
        let most_important = self.victims.iter().filter(|pod| priority(pod) == highest);
        let earliest = most_important.filter_map(|pod| start_time(pod)).min();
        (self.violations, highest, self.victims.iter().map(shifted).sum(), self.victims.len(), Reverse(earliest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::World;

    fn cpu(priority: i32, amount: &str) -> String {
        let requests = format!(r#"{{"requests":{{"cpu":"{amount}"}}}}"#);
        format!(r#""priority":{priority},"containers":[{{"name":"c","resources":{requests}}}]"#)
    }

    #[test]
    fn the_least_important_pods_leave() {
        let mut world = World::with_nodes(&[("a", ""), ("b", ""), ("c", "")]);
        for (name, priority, amount, node) in [
            ("a-high", 100, "3", "a"),
            ("a-low", 1, "1", "a"),
            ("b-low", 1, "2", "b"),
            ("b-lower", 0, "2", "b"),
            ("c-mid", 50, "4", "c"),
        ] {
            world.place("default", name, "", &cpu(priority, amount), node);
        }
        let full = "0/3 nodes are available: 3 Insufficient cpu.";
        let too_large = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        for (spec, want) in [
            (cpu(10, "1"), "b: b-lower".to_owned()),
            (cpu(10, "3"), "b: b-low b-lower".to_owned()),
            (cpu(60, "4"), "b: b-low b-lower".to_owned()),
            (cpu(1, "2"), "b: b-lower".to_owned()),
            (cpu(1000, "5"), format!("{full} preemption: {too_large}")),
            (
                cpu(0, "1"),
                format!("{full} preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."),
            ),
            (
                cpu(1, "3"),
                format!(
                    "{full} preemption: 0/3 nodes are available: 1 Insufficient cpu, \
                     2 No preemption victims found for incoming pod."
                ),
            ),
            (
                format!(r#"{},"preemptionPolicy":"Never""#, cpu(10, "1")),
                format!("{full} preemption: not eligible due to preemptionPolicy=Never."),
            ),
        ] {
            assert_eq!(world.preemption("", &spec), want, "{spec}");
        }
    }

    #[test]
    fn budgets_are_respected_where_possible() {
        let mut world = World::with_nodes(&[("a", ""), ("b", "")]);
        world.place("default", "guarded", r#""app":"db""#, &cpu(0, "4"), "a");
        world.place("default", "free", "", &cpu(5, "4"), "b");
        assert_eq!(world.preemption("", &cpu(10, "1")), "a: guarded");
        world.budget(r#"{"app":"db"}"#, 0);
        assert_eq!(world.preemption("", &cpu(10, "1")), "b: free");
        // On one node, protected pods stay if others suffice.
        let mut world = World::with_nodes(&[("a", "")]);
        world.place("default", "guarded", r#""app":"db""#, &cpu(0, "2"), "a");
        world.place("default", "free", "", &cpu(5, "2"), "a");
        world.budget(r#"{"app":"db"}"#, 0);
        assert_eq!(world.preemption("", &cpu(10, "1")), "a: free");
        assert_eq!(world.preemption("", &cpu(10, "3")), "a: free guarded");
    }

    #[test]
    fn anti_affinity_and_ports_are_solved_as_well() {
        let mut world = World::with_nodes(&[("a", "zone=a")]);
        let port = r#""containers":[{"name":"c","ports":[{"containerPort":80,"hostPort":80}]}]"#;
        world.place("default", "holder", r#""app":"db""#, port, "a");
        world.place("default", "bystander", "", "", "a");
        assert_eq!(world.preemption("", &format!(r#""priority":1,{port}"#)), "a: holder");
        let alone = r#""priority":1,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
            {"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"db"}}}]}}"#;
        assert_eq!(world.preemption("", alone), "a: holder");
    }

    #[test]
    fn room_is_kept_for_a_nominated_pod() {
        let mut world = World::with_nodes(&[("a", "")]);
        world.nominate("default", "first", "", &cpu(10, "3"), "a");
        assert_eq!(world.feasible("default", "", &cpu(20, "2")), Ok("a".into()));
        assert_eq!(world.feasible("default", "", &cpu(10, "2")), Err("1 Insufficient cpu".into()));
        assert_eq!(world.feasible("default", "", &cpu(0, "1")), Ok("a".into()));
    }
}
