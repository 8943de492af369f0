//! Predicates and accessors of pods.

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::{Pod, PodCondition, Volume};
use kubewright_core::{Object, Str, Time};

/// The phase; empty if unset.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether the pod has ended, successfully or not.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod counts as a replica: neither ended nor terminating.
#[doc(alias = "IsPodActive")]
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !pod.is_being_deleted()
}

/// The node; empty if there is none.
pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The names of the claims that a pod uses.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = Str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter());
    volumes.filter_map(|volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => ephemeral_claim(pod, volume),
    })
}

/// The claim name of an ephemeral volume of a pod.
#[doc(alias = "VolumeClaimName")]
pub(crate) fn ephemeral_claim(pod: &Pod, volume: &Volume) -> Option<Str> {
    volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.name(), volume.name).into())
}

/// The condition of this type.
pub(crate) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// When the pod became ready, if it is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Time> {
    condition(pod, "Ready").filter(|condition| condition.status == "True")?.last_transition_time
}

/// The highest restart count of its containers.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter());
    statuses.map(|container| container.restart_count).max().unwrap_or_default()
}

/// The time until a pod is available: zero if it is, `None` if it is not ready.
#[doc(alias = "IsPodAvailable")]
pub(crate) fn until_available(pod: &Pod, min_ready_seconds: i32, now: Time) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    let minimum = u64::try_from(min_ready_seconds).unwrap_or_default();
    if minimum == 0 {
        return Some(Duration::ZERO);
    }
    let since = ready_since(pod)?;
    let ready_for = now.duration_since(since).unwrap_or_default();
    Some(Duration::from_secs(minimum).saturating_sub(ready_for))
}

/// When the next ready pod becomes available; a second later, since times in objects have no
/// fractions.
pub(crate) fn next_available(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Time) -> Option<Duration> {
    let waits = pods.iter().filter_map(|pod| until_available(pod, min_ready_seconds, now));
    waits.filter(|wait| !wait.is_zero()).min().map(|wait| wait + Duration::from_secs(1))
}

/// A new condition of a pod.
pub(crate) fn new_condition(type_: &str, is_true: bool, now: Time) -> PodCondition {
    PodCondition {
        type_: type_.into(),
        status: Str::from(if is_true { "True" } else { "False" }),
        last_transition_time: Some(now),
        ..Default::default()
    }
}
