//! The pods of a stateful set: an ordinal determines name, host name and storage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kubewright_api::apps::v1::{StatefulSet, StatefulSetSpec};
use kubewright_api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use kubewright_core::{Object, Str, Time, owner};

use super::KIND;
use crate::pods::{phase, until_available};
use crate::revisions::REVISION_LABEL;

/// The label with the name of a pod, so that a service can select it.
#[doc(alias = "StatefulSetPodNameLabel")]
pub(super) const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the ordinal of a pod.
#[doc(alias = "PodIndexLabel")]
pub(super) const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name of the pod with this ordinal.
pub(super) fn name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// The ordinal of a pod of this set, from its name; `None` if the name does not match.
#[doc(alias = "getOrdinal")]
#[doc(alias = "isMemberOf")]
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let number: i32 = pod.name().strip_prefix(set.name())?.strip_prefix('-')?.parse().ok()?;
    // Rejects `web-01` and `web-+1`.
    (number >= 0 && pod.name() == name(set.name(), number)).then_some(number)
}

/// The wanted ordinals.
pub(super) fn ordinals(spec: &StatefulSetSpec) -> Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or_default();
    start..start.saturating_add(spec.replicas.unwrap_or(1))
}

/// The revision of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION_LABEL).unwrap_or_default()
}

/// The name of the claim that a template makes for a pod.
#[doc(alias = "getPersistentVolumeClaimName")]
pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.name())
}

/// Whether a pod runs and is ready, and has been for long enough.
#[doc(alias = "isRunningAndAvailable")]
pub(super) fn is_available(pod: &Pod, spec: &StatefulSetSpec, now: Time) -> bool {
    let minimum = spec.min_ready_seconds.unwrap_or_default();
    phase(pod) == "Running" && until_available(pod, minimum, now).is_some_and(|wait| wait.is_zero())
}

/// Whether a pod is unavailable or terminating.
#[doc(alias = "isUnavailable")]
pub(super) fn is_unavailable(pod: &Pod, spec: &StatefulSetSpec, now: Time) -> bool {
    pod.is_being_deleted() || !is_available(pod, spec, now)
}

/// Whether a pod has its identity labels, which an adopted one may lack.
#[doc(alias = "identityMatches")]
pub(super) fn has_identity(pod: &Pod, ordinal: i32) -> bool {
    let labels = pod.labels();
    labels.get(NAME_LABEL) == Some(pod.name()) && labels.get(INDEX_LABEL) == Some(&*ordinal.to_string())
}

/// A pod with this ordinal and revision.
#[doc(alias = "newVersionedStatefulSetPod")]
pub(super) fn new_pod(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Pod {
    let name: Str = name(set.name(), ordinal).into();
    let mut pod = Pod { spec: template.spec.clone(), ..Default::default() };
    pod.metadata.name = Some(name.clone());
    pod.metadata.namespace = set.metadata.namespace.clone();
    pod.metadata.labels = template.metadata.labels.clone();
    pod.metadata.labels.insert(NAME_LABEL, name.clone());
    pod.metadata.labels.insert(INDEX_LABEL, ordinal.to_string().into());
    pod.metadata.labels.insert(REVISION_LABEL, revision.into());
    pod.metadata.annotations = template.metadata.annotations.clone();
    pod.metadata.finalizers = template.metadata.finalizers.clone();
    pod.metadata.owner_references = [owner::new_controller_ref(&set.metadata, &KIND)].into();
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name);
    pod_spec.subdomain = spec.service_name.clone();
    let claimed = spec.volume_claim_templates.iter().map(|template| claimed_volume(set, template, ordinal));
    let is_other = |volume: &&Volume| spec.volume_claim_templates.iter().all(|claim| claim.name() != volume.name);
    pod_spec.volumes = claimed.chain(pod_spec.volumes.iter().filter(is_other).cloned()).collect();
    pod
}

fn claimed_volume(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> Volume {
    let source = PersistentVolumeClaimVolumeSource {
        claim_name: claim_name(set, template, ordinal).into(),
        ..Default::default()
    };
    Volume { name: template.name().into(), persistent_volume_claim: Some(source.into()), ..Default::default() }
}

/// The classified pods of a set.
pub(super) struct SetPods {
    /// The wanted ordinals.
    pub(super) ordinals: Range<i32>,
    /// Wanted pods, by ordinal.
    pub(super) replicas: BTreeMap<i32, Arc<Pod>>,
    /// Condemned pods, highest ordinal first.
    pub(super) condemned: Vec<Arc<Pod>>,
}

impl SetPods {
    pub(super) fn new(set: &StatefulSet, spec: &StatefulSetSpec, pods: &[Arc<Pod>]) -> Self {
        let ordinals = ordinals(spec);
        let numbered = pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod.clone())));
        let (replicas, condemned): (BTreeMap<_, _>, BTreeMap<_, _>) =
            numbered.partition(|(number, _)| ordinals.contains(number));
        SetPods { ordinals, replicas, condemned: condemned.into_values().rev().collect() }
    }

    /// Number of wanted pods.
    pub(super) fn wanted(&self) -> usize {
        self.ordinals.len()
    }
}
