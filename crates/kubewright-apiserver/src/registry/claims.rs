//! The volume claims and the node that a pod uses.

use kubewright_core::{Str, Value};
use kubewright_storage::Key;

use kubewright_auth::authorization;
use kubewright_objects::lookup::IndexTerm;
use kubewright_objects::object::{Meta, tree};

/// The index terms of a pod: its claims, and its node.
pub(crate) fn pod_terms(key: &Key, pod: &Value) -> Vec<IndexTerm> {
    let namespace = Str::from(key.namespace().unwrap_or_default());
    let claims = claims_of(pod).map(|name| IndexTerm::Claim { namespace: namespace.clone(), name });
    claims.chain(authorization::node_term(pod)).collect()
}

/// The claims that a pod names, and those of its ephemeral volumes.
pub(crate) fn claims_of(pod: &Value) -> impl Iterator<Item = Str> {
    let claim = |volume| match tree::text(volume, &["persistentVolumeClaim", "claimName"]) {
        "" if is_ephemeral(volume) => Some(ephemeral_claim(pod, volume).into()),
        "" => None,
        name => Some(name.into()),
    };
    tree::items(pod, &["spec", "volumes"]).iter().filter_map(claim)
}

pub(crate) fn is_ephemeral(volume: &Value) -> bool {
    tree::get(volume, &["ephemeral"]).is_some()
}

/// The name of the claim for an ephemeral volume of a pod.
pub(crate) fn ephemeral_claim(pod: &Value, volume: &Value) -> String {
    format!("{}-{}", pod.name(), tree::text(volume, &["name"]))
}
