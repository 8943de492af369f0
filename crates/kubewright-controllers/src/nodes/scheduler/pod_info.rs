//! The properties of a pod that the scheduler needs, computed once.

use std::sync::Arc;

use kubewright_api::core::v1::{Pod, PodAffinityTerm};
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::selector::{Operator, Requirement};
use kubewright_core::{Map, Object, Selector, Str};

use super::ports::{HostPort, host_ports};
use super::resources::{Amounts, assumed_requests, requests};
use crate::owner_events::controller;

/// A pod with its requests, ports and affinity terms.
#[derive(Debug)]
pub(in crate::nodes) struct PodInfo {
    pub(in crate::nodes) pod: Arc<Pod>,
    /// The uid of its controller; empty if there is none.
    pub(in crate::nodes) controller: Str,
    pub(in crate::nodes) requests: Amounts,
    /// Requests for scores.
    pub(in crate::nodes) assumed: Amounts,
    pub(in crate::nodes) ports: Vec<HostPort>,
    /// Required terms of pod affinity.
    pub(in crate::nodes) affinity: Vec<Term>,
    /// Required terms of pod anti-affinity.
    pub(in crate::nodes) anti_affinity: Vec<Term>,
    /// Preferred terms with their weights; those of anti-affinity are negative.
    pub(in crate::nodes) preferred: Vec<(i64, Term)>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug)]
#[doc(alias = "AffinityTerm")]
pub(in crate::nodes) struct Term {
    pub(in crate::nodes) topology_key: Str,
    pub(in crate::nodes) namespaces: Vec<Str>,
    pub(in crate::nodes) namespace_selector: Selector,
    selector: Selector,
}

impl PodInfo {
    pub(in crate::nodes) fn new(pod: &Arc<Pod>) -> Self {
        let mut info = PodInfo {
            pod: pod.clone(),
            controller: controller(pod).map(|reference| reference.uid.clone()).unwrap_or_default(),
            requests: requests(pod),
            assumed: assumed_requests(pod),
            ports: host_ports(pod),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
        };
        let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else { return info };
        if let Some(affinity) = &affinity.pod_affinity {
            let required = affinity.required_during_scheduling_ignored_during_execution.iter();
            info.affinity = required.map(|term| Term::new(pod, term)).collect();
            let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
            info.preferred.extend(preferred.map(|one| (i64::from(one.weight), Term::new(pod, &one.pod_affinity_term))));
        }
        if let Some(affinity) = &affinity.pod_anti_affinity {
            let required = affinity.required_during_scheduling_ignored_during_execution.iter();
            info.anti_affinity = required.map(|term| Term::new(pod, term)).collect();
            let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
            info.preferred
                .extend(preferred.map(|one| (-i64::from(one.weight), Term::new(pod, &one.pod_affinity_term))));
        }
        info
    }

    pub(in crate::nodes) fn priority(&self) -> i32 {
        priority(&self.pod)
    }

    pub(in crate::nodes) fn has_affinity(&self) -> bool {
        !self.affinity.is_empty() || !self.anti_affinity.is_empty() || !self.preferred.is_empty()
    }

    pub(in crate::nodes) fn tolerations(&self) -> &[kubewright_api::core::v1::Toleration] {
        self.pod.spec.as_ref().map(|spec| &spec.tolerations[..]).unwrap_or_default()
    }

    /// Whether the arrival of another pod may make this one schedulable.
    pub(in crate::nodes) fn waits_for_pods(&self) -> bool {
        !self.affinity.is_empty()
            || self.pod.spec.as_ref().is_some_and(|spec| !spec.topology_spread_constraints.is_empty())
    }
}

/// The priority of a pod.
pub(in crate::nodes) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

impl Term {
    fn new(pod: &Pod, term: &PodAffinityTerm) -> Self {
        // Without namespaces and a selector, the term is about the namespace of its pod.
        let is_own = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let own = is_own.then(|| pod.namespace().into());
        let selector = selector(term.label_selector.as_deref());
        let selector = with_labels(selector, &pod.metadata.labels, &term.match_label_keys, Operator::In);
        Term {
            topology_key: term.topology_key.clone(),
            namespaces: term.namespaces.iter().cloned().chain(own).collect(),
            namespace_selector: self::selector(term.namespace_selector.as_deref()),
            selector: with_labels(selector, &pod.metadata.labels, &term.mismatch_label_keys, Operator::NotIn),
        }
    }

    /// Whether it is about a pod in a namespace with these labels.
    pub(in crate::nodes) fn matches(&self, pod: &Pod, of_namespace: &Map<Str>) -> bool {
        let is_namespace = self.namespaces.iter().any(|name| *name == *pod.namespace())
            || self.namespace_selector.matches(of_namespace);
        is_namespace && self.selector.matches(&pod.metadata.labels)
    }
}

/// An invalid selector, which validation rejects, selects nothing.
pub(in crate::nodes) fn selector(selector: Option<&LabelSelector>) -> Selector {
    Selector::from_label_selector(selector).unwrap_or_else(|_| Selector::nothing())
}

/// A selector that also compares these labels with those of the pod. Does nothing if the server has
/// merged them into the selector.
#[doc(alias = "matchLabelKeys")]
pub(in crate::nodes) fn with_labels(
    mut selector: Selector,
    labels: &Map<Str>,
    keys: &[Str],
    operator: Operator,
) -> Selector {
    for key in keys {
        let requirement = labels.get(key).map(|value| Requirement::new(key, operator, [value.clone()]));
        if let Some(Ok(requirement)) = requirement {
            selector = selector.with(requirement);
        }
    }
    selector
}
