//! Plans the next actions of a stateful set.
//!
//! By default one at a time: a pod is created when all before it are available, the last one is
//! deleted first, and a pod of an older revision is replaced when all after it are available. With
//! `podManagementPolicy: Parallel` pods are created and deleted together, and only replacements
//! wait.
//!
//! Replacements follow Go exactly, so that what is stuck there is stuck here: a pod of the new
//! revision that does not start blocks all others. With `maxUnavailable` Go's rule of that feature
//! gate applies, by which pods of any revision count. Servers without the gate drop the field.

use std::sync::Arc;

use kubewright_api::apps::v1::{RollingUpdateStatefulSetStrategy, StatefulSetSpec};
use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Time};

use super::pod::{SetPods, has_identity, is_available, is_unavailable, revision};
use crate::pods::{is_finished, phase};

/// Maximum number of pods created per reconcile.
const BURST: usize = 500;

/// An action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PodAction {
    /// Create the pod of this ordinal, and its claims.
    Create(i32),
    /// Delete a pod.
    Delete(Arc<Pod>),
    /// Create missing claims of a pod.
    Claim(Arc<Pod>, i32),
    /// Add the labels of its ordinal to a pod.
    Identify(Arc<Pod>, i32),
}

/// The actions for the pods of a set, in order.
pub(super) fn plan(spec: &StatefulSetSpec, members: &SetPods, update_revision: &str, now: Time) -> Vec<PodAction> {
    let mut actions = Vec::new();
    let is_parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
    let may_go_on = keep(spec, members, is_parallel, now, &mut actions)
        && shrink(spec, members, is_parallel, now, &mut actions)
        && spec.update_strategy.as_ref().is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"));
    if may_go_on {
        replace(spec, members, update_revision, now, &mut actions);
    }
    actions
}

/// Plans actions for wanted pods. False if nothing else may be done first.
#[doc(alias = "processReplica")]
fn keep(spec: &StatefulSetSpec, members: &SetPods, is_parallel: bool, now: Time, actions: &mut Vec<PodAction>) -> bool {
    let mut made = 0;
    for ordinal in members.ordinals.clone() {
        let Some(pod) = members.replicas.get(&ordinal) else {
            actions.push(PodAction::Create(ordinal));
            made += 1;
            if is_parallel && made < BURST {
                continue;
            }
            return false;
        };
        if is_finished(pod) {
            // Its replacement is created once it is deleted.
            if !pod.is_being_deleted() {
                actions.push(PodAction::Delete(pod.clone()));
            }
            if is_parallel {
                continue;
            }
            return false;
        }
        if phase(pod) == "Pending" {
            actions.push(PodAction::Claim(pod.clone(), ordinal));
        }
        if !is_parallel && is_unavailable(pod, spec, now) {
            return false;
        }
        if !has_identity(pod, ordinal) {
            actions.push(PodAction::Identify(pod.clone(), ordinal));
        }
    }
    true
}

/// Deletes condemned pods. False if nothing else may be done first.
#[doc(alias = "processCondemned")]
fn shrink(
    spec: &StatefulSetSpec,
    members: &SetPods,
    is_parallel: bool,
    now: Time,
    actions: &mut Vec<PodAction>,
) -> bool {
    let replicas = members.replicas.values();
    let first_unavailable = replicas.chain(members.condemned.iter().rev()).find(|pod| is_unavailable(pod, spec, now));
    let is_first = |pod: &Arc<Pod>| first_unavailable.is_some_and(|first| Arc::ptr_eq(first, pod));
    for pod in &members.condemned {
        let waits = pod.is_being_deleted() || !is_available(pod, spec, now) && !is_first(pod);
        if waits && !is_parallel {
            return false;
        }
        if !pod.is_being_deleted() {
            actions.push(PodAction::Delete(pod.clone()));
            if !is_parallel {
                return false;
            }
        }
    }
    true
}

/// Replaces pods of older revisions, highest ordinal first, down to the partition.
#[doc(alias = "updateStatefulSetAfterInvariantEstablished")]
fn replace(spec: &StatefulSetSpec, members: &SetPods, update_revision: &str, now: Time, actions: &mut Vec<PodAction>) {
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_deref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or_default();
    let first = members.ordinals.start.saturating_add(partition.max(0));
    let is_old = |pod: &Pod| revision(pod) != update_revision && !pod.is_being_deleted();
    let delete = |pod: &Arc<Pod>| PodAction::Delete(pod.clone());
    if let Some(limit) = rolling.filter(|rolling| rolling.max_unavailable.is_some()) {
        let available = members.replicas.values().filter(|pod| !is_unavailable(pod, spec, now)).count();
        let unavailable = members.wanted().saturating_sub(available);
        let budget = max_unavailable(Some(limit), members.wanted()).saturating_sub(unavailable);
        let old = members.replicas.range(first..).rev().map(|(_, pod)| pod).filter(|pod| is_old(pod));
        actions.extend(old.take(budget).filter(|pod| !is_finished(pod)).map(delete));
        return;
    }
    for ordinal in (first..members.ordinals.end).rev() {
        match members.replicas.get(&ordinal) {
            Some(pod) if is_old(pod) => {
                // A finished pod is deleted in any case.
                actions.extend((!is_finished(pod)).then(|| delete(pod)));
                return;
            }
            Some(pod) if !is_unavailable(pod, spec, now) => {}
            // It is created or replaced first.
            _ => return,
        }
    }
}

/// Maximum number of unavailable pods during an update; 1 by default, and at least 1.
#[doc(alias = "getStatefulSetMaxUnavailable")]
fn max_unavailable(rolling: Option<&RollingUpdateStatefulSetStrategy>, replicas: usize) -> usize {
    let said = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let scaled = said.and_then(|said| said.scaled_value_from(replicas as i64, false).ok());
    scaled.and_then(|scaled| usize::try_from(scaled).ok()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use kubewright_api::apps::v1::{StatefulSet, StatefulSetUpdateStrategy};

    use super::super::pod::new_pod;
    use super::*;
    use crate::pods::new_condition;

    /// The actions for pods written as ordinal, state and revision: ready, waiting, going or
    /// failed.
    fn acts(spec: &StatefulSetSpec, pods: &[&str]) -> String {
        let mut set = StatefulSet::default();
        set.metadata.name = Some("web".into());
        let now = Time::now();
        let pod = |text: &&str| {
            let (number, state) = text.split_at(text.len() - 2);
            let mut pod = new_pod(&set, spec, &spec.template, &state[1..], number.parse().unwrap());
            let status = pod.status.get_or_insert_default();
            status.phase = Some(if state.starts_with('f') { "Failed" } else { "Running" }.into());
            status.conditions = [new_condition("Ready", state.starts_with(['r', 'g']), now)].into();
            pod.metadata.deletion_timestamp = state.starts_with('g').then_some(now);
            Arc::new(pod)
        };
        let pods: Vec<_> = pods.iter().map(pod).collect();
        let actions = plan(spec, &SetPods::new(&set, spec, &pods), "2", now);
        let texts: Vec<String> = actions
            .iter()
            .map(|action| match action {
                PodAction::Create(ordinal) => format!("+{ordinal}"),
                PodAction::Delete(pod) => format!("-{}", pod.name().trim_start_matches("web-")),
                other => format!("{other:?}"),
            })
            .collect();
        texts.join(" ")
    }

    fn spec(replicas: i32, change: impl FnOnce(&mut StatefulSetSpec)) -> StatefulSetSpec {
        let mut spec = StatefulSetSpec { replicas: Some(replicas), ..Default::default() };
        change(&mut spec);
        spec
    }

    fn rolling(spec: &mut StatefulSetSpec, rolling: RollingUpdateStatefulSetStrategy) {
        let strategy =
            StatefulSetUpdateStrategy { type_: Some("RollingUpdate".into()), rolling_update: Some(rolling.into()) };
        spec.update_strategy = Some(strategy.into());
    }

    #[test]
    fn ordered_sets_take_one_action_at_a_time() {
        let three = spec(3, |_| {});
        for (pods, want) in [
            (&[][..], "+0"),
            (&["0w2"], ""),
            (&["0r2"], "+1"),
            (&["0r2", "1g2"], ""),
            (&["0r2", "2r2"], "+1"),
            (&["0r2", "1f2"], "-1"),
            (&["0r2", "1r2", "2r2"], ""),
            (&["0r2", "1r2", "2r2", "3r2", "4r2"], "-4"),
            (&["0r2", "1r2", "2r2", "3r2", "4g2"], ""),
            (&["0r2", "1r2", "2r2", "3w2", "4r2"], "-4"),
            (&["0r2", "1r2", "2r2", "3r2", "4w2"], "-4"),
            (&["0r2", "1r2", "2r2", "3w2", "4w2"], ""),
            (&["0r2", "1w2", "2r2", "3r2"], ""),
            (&["0r1", "1r1", "2r1"], "-2"),
            (&["0r1", "1r1", "2w2"], ""),
            (&["0r1", "1r1", "2r2"], "-1"),
            (&["0r1", "1r1", "2r1", "3r1"], "-3"),
        ] {
            assert_eq!(acts(&three, pods), want, "{pods:?}");
        }
    }

    #[test]
    fn parallel_sets_scale_at_once_and_update_one_by_one() {
        let three = spec(3, |spec| spec.pod_management_policy = Some("Parallel".into()));
        for (pods, want) in [
            (&[][..], "+0 +1 +2"),
            (&["1w2"], "+0 +2"),
            (&["0f2", "1w2"], "-0 +2"),
            (&["0r2", "1w2", "2r2", "3w2", "4g2", "5r2"], "-5 -3"),
            (&["0r1", "1r1", "2r1"], "-2"),
            (&["0r1", "1r1", "2g1"], ""),
            // A pod of the new revision that does not start blocks the others.
            (&["0r1", "1w1", "2w2"], ""),
            (&["0r1", "1w1", "2r2"], "-1"),
            (&["0w1", "1w1", "2w1"], "-2"),
            (&["0r1", "1f1", "2r2"], "-1"),
            (&["0r1", "2r1"], "+1 -2"),
            (&["0r1", "1r1"], "+2"),
        ] {
            assert_eq!(acts(&three, pods), want, "{pods:?}");
        }
    }

    #[test]
    fn so_many_at_a_time_that_numbers_may_be_large() {
        let huge = spec(i32::MAX, |spec| spec.ordinals.get_or_insert_default().start = Some(i32::MAX - 1));
        assert_eq!(acts(&huge, &[]), format!("+{}", i32::MAX - 1));
        let many = spec(i32::MAX, |spec| spec.pod_management_policy = Some("Parallel".into()));
        assert_eq!(acts(&many, &["7r2"]).split(' ').count(), BURST);
    }

    #[test]
    fn partition_max_unavailable_and_first_ordinal_are_respected() {
        let partition = RollingUpdateStatefulSetStrategy { partition: Some(2), ..Default::default() };
        let many = RollingUpdateStatefulSetStrategy { max_unavailable: Some("50%".into()), ..Default::default() };
        let old = ["0r1", "1r1", "2r1", "3r1"];
        assert_eq!(acts(&spec(4, |spec| rolling(spec, partition.clone())), &old), "-3");
        assert_eq!(acts(&spec(4, |spec| rolling(spec, partition)), &["0r1", "1r1", "2r2", "3r2"]), "");
        let many = spec(4, |spec| {
            rolling(spec, many);
            spec.pod_management_policy = Some("Parallel".into());
        });
        assert_eq!(acts(&many, &old), "-3 -2");
        assert_eq!(acts(&many, &["0r1", "1r1", "2r1", "3w2"]), "-2");
        assert_eq!(acts(&many, &["0r1", "1r1", "2w2", "3w2"]), "");
        let on_delete = StatefulSetUpdateStrategy { type_: Some("OnDelete".into()), ..Default::default() };
        assert_eq!(acts(&spec(4, |spec| spec.update_strategy = Some(on_delete.into())), &old), "");
        let late = spec(2, |spec| spec.ordinals.get_or_insert_default().start = Some(3));
        assert_eq!(acts(&late, &["3r2"]), "+4");
        assert_eq!(acts(&late, &["2r2", "3r2", "4r2"]), "-2");
    }
}
