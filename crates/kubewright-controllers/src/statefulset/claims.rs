//! The claims of a stateful set's pods: one per template and ordinal, which outlives its pod and,
//! depending on the retention policy, the set.

use kubewright_api::apps::v1::{StatefulSet, StatefulSetSpec};
use kubewright_api::core::v1::{PersistentVolumeClaim, Pod};
use kubewright_client::Api;
use kubewright_core::meta::v1::{ObjectMeta, OwnerReference};
use kubewright_core::{GroupVersionKind, List, Object, owner};

use super::pod::{claim_name, ordinals};
use super::{KIND, StatefulSets};
use crate::error::Error;

const POD: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Pod");

impl StatefulSets {
    /// Creates the missing claims of a pod. False if a claim of an earlier pod of that name must be
    /// deleted first.
    #[doc(alias = "createPersistentVolumeClaims")]
    pub(super) async fn ensure_claims(
        &self,
        set: &StatefulSet,
        spec: &StatefulSetSpec,
        pod: &Pod,
        ordinal: i32,
    ) -> Result<bool, Error> {
        for template in spec.volume_claim_templates.iter() {
            let name = claim_name(set, template, ordinal);
            match self.claims.namespace(set.namespace()).get(&name) {
                Some(claim) if claim.is_being_deleted() || is_of_earlier_pod(&claim, pod) => return Ok(false),
                Some(_) => {}
                None => self.make_claim(set, spec, template, pod, name).await?,
            }
        }
        Ok(true)
    }

    async fn make_claim(
        &self,
        set: &StatefulSet,
        spec: &StatefulSetSpec,
        template: &PersistentVolumeClaim,
        pod: &Pod,
        name: String,
    ) -> Result<(), Error> {
        let mut claim = template.clone();
        claim.status = None;
        claim.metadata.namespace = set.metadata.namespace.clone();
        for (key, value) in spec.selector.match_labels.iter() {
            claim.metadata.labels.insert(key, value.clone());
        }
        claim.metadata.owner_references = owners(&claim.metadata, set, spec, pod, false);
        claim.metadata.name = Some(name.as_str().into());
        let told = format!("create Claim {name} Pod {} in StatefulSet {}", pod.name(), set.name());
        match Api::namespaced(&self.client, set.namespace()).create(&claim).await {
            Ok(_) => self.events.normal(set, "SuccessfulCreate", format!("{told} success")),
            // The cache is stale.
            Err(error) if error.is_already_exists() => {}
            Err(error) => {
                self.events.warning(set, "FailedCreate", format!("{told} failed error: {error}"));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Updates the owners of a pod's claims according to the retention policy.
    #[doc(alias = "UpdatePodClaimForRetentionPolicy")]
    pub(super) async fn retain_claims(
        &self,
        set: &StatefulSet,
        spec: &StatefulSetSpec,
        pod: &Pod,
        ordinal: i32,
    ) -> Result<(), Error> {
        let is_condemned = !ordinals(spec).contains(&ordinal);
        for template in spec.volume_claim_templates.iter() {
            let name = claim_name(set, template, ordinal);
            let Some(claim) = self.claims.namespace(set.namespace()).get(&name) else { continue };
            let owners = owners(&claim.metadata, set, spec, pod, is_condemned);
            if claim.is_being_deleted() || owners == claim.metadata.owner_references {
                continue;
            }
            let mut changed = (*claim).clone();
            changed.metadata.owner_references = owners;
            let api = Api::<PersistentVolumeClaim>::namespaced(&self.client, set.namespace());
            match api.update(&changed).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a claim is owned by an earlier pod of the same name.
#[doc(alias = "hasStaleOwnerRef")]
fn is_of_earlier_pod(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let is_earlier = |reference: &OwnerReference| {
        reference.kind == POD.kind && reference.name == pod.name() && reference.uid != pod.uid()
    };
    claim.metadata.owner_references.iter().any(is_earlier)
}

/// The owners of a claim: the set if it is deleted with the set, a condemned pod if it is deleted
/// on a scale-down. Foreign owners stay.
#[doc(alias = "updateClaimOwnerRefForSetAndPod")]
fn owners(
    claim: &ObjectMeta,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pod: &Pod,
    is_condemned: bool,
) -> List<OwnerReference> {
    let policy = spec.persistent_volume_claim_retention_policy.as_deref();
    let goes = |when: Option<&str>| when == Some("Delete");
    let with_set = goes(policy.and_then(|policy| policy.when_deleted.as_deref()));
    let with_pod = is_condemned && goes(policy.and_then(|policy| policy.when_scaled.as_deref()));
    let is_other = |reference: &&OwnerReference| reference.uid != set.uid() && reference.uid != pod.uid();
    let others = claim.owner_references.iter().filter(is_other).cloned();
    // Not both: a claim with two owners would stay until both are deleted. Nor in addition to a
    // foreign controller.
    let is_taken = claim.owner_references.iter().any(|other| is_other(&other) && other.controller == Some(true));
    let own = match (with_pod, with_set) {
        _ if is_taken => None,
        (true, _) => Some(owner::new_controller_ref(&pod.metadata, &POD)),
        (false, true) => Some(owner::new_controller_ref(&set.metadata, &KIND)),
        (false, false) => None,
    };
    others.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retention_policy_decides_the_owner_of_a_claim() {
        let (mut set, mut pod, mut claim) = (StatefulSet::default(), Pod::default(), ObjectMeta::default());
        set.metadata.uid = Some("set".into());
        pod.metadata.uid = Some("pod".into());
        let mut other = OwnerReference { uid: "other".into(), ..Default::default() };
        for (deleted, scaled, is_condemned, want) in [
            ("Retain", "Retain", false, &["other"][..]),
            ("Retain", "Retain", true, &["other"]),
            ("Delete", "Retain", false, &["other", "set"]),
            ("Delete", "Retain", true, &["other", "set"]),
            ("Retain", "Delete", false, &["other"]),
            ("Retain", "Delete", true, &["other", "pod"]),
            ("Delete", "Delete", false, &["other", "set"]),
            ("Delete", "Delete", true, &["other", "pod"]),
        ] {
            let mut spec = StatefulSetSpec::default();
            let policy = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
            (policy.when_deleted, policy.when_scaled) = (Some(deleted.into()), Some(scaled.into()));
            for before in [&["other"][..], &["set", "other"], &["other", "pod"]] {
                let reference = |uid: &&str| OwnerReference { uid: (*uid).into(), ..other.clone() };
                claim.owner_references = before.iter().map(reference).collect();
                let owners = owners(&claim, &set, &spec, &pod, is_condemned);
                let uids: Vec<_> = owners.iter().map(|reference| reference.uid.as_str()).collect();
                assert_eq!(uids, want, "{deleted} {scaled} {is_condemned} {before:?}");
            }
        }
        // There can be only one controller.
        other.controller = Some(true);
        claim.owner_references = [other].into();
        let mut spec = StatefulSetSpec::default();
        spec.persistent_volume_claim_retention_policy.get_or_insert_default().when_deleted = Some("Delete".into());
        assert_eq!(owners(&claim, &set, &spec, &pod, false), claim.owner_references);
    }
}
