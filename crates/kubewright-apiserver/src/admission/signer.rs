//! CertificateSigningRequests: their requester, and the permission to approve and sign them.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_net::clock;

use super::Part;
use super::plugins::AdmissionPlugin;
use super::state::ClusterState;
use kubewright_auth::User;
use kubewright_auth::authorization::{ResourceAction, decide};
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// The requester fields of a CertificateSigningRequest.
const REQUESTER: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Sets the requester of a CertificateSigningRequest, whatever the object says.
pub(crate) fn set_requester(resource: &Resource, value: &mut Value, user: &User) {
    if !resource.is("certificates.k8s.io", "certificatesigningrequests") {
        return;
    }
    let spec = tree::object_mut(value, &["spec"]);
    REQUESTER.iter().for_each(|field| drop(spec.remove(field)));
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec.insert(field, text.clone().into());
        }
    }
    if !user.groups.is_empty() {
        spec.insert("groups", tree::list(user.groups.iter().map(|group| group.as_str())));
    }
    if let Some(extra) = user.extra() {
        spec.insert("extra", extra);
    }
}

/// Sets missing timestamps of the conditions of a CertificateSigningRequest. kube-apiserver:
/// `populateConditionTimestamps`.
pub(crate) fn set_condition_times(resource: &Resource, part: Part, old: &Value, new: &mut Value) {
    let is_written = matches!(part, Part::Approval | Part::Status);
    if !is_written || !resource.is("certificates.k8s.io", "certificatesigningrequests") {
        return;
    }
    let former = tree::items(old, &["status", "conditions"]);
    let now: Value = clock::now().to_string().into();
    let status = tree::field_mut(new, "status");
    for condition in status.map(|status| tree::items_mut(status, "conditions")).unwrap_or_default() {
        let is_unset = |field: &str| tree::text(condition, &[field]).is_empty();
        let (updated, changed) = (is_unset("lastUpdateTime"), is_unset("lastTransitionTime"));
        if updated {
            tree::set(condition, &["lastUpdateTime"], now.clone());
        }
        if changed {
            let is_same = |other: &&Value| {
                ["type", "status"].iter().all(|field| tree::text(other, &[field]) == tree::text(condition, &[field]))
            };
            let since = former.iter().find(is_same).and_then(|other| other.get("lastTransitionTime"));
            let since = since.filter(|since| !since.is_null()).unwrap_or(&now).clone();
            tree::set(condition, &["lastTransitionTime"], since);
        }
    }
}

/// Rejects an approval or a certificate, unless the user has the permission for the signer.
pub(crate) fn check(
    cluster: &dyn ClusterState,
    user: &User,
    resource: &Resource,
    part: Part,
    old: &Value,
    new: &Value,
) -> Result<(), Rejection> {
    let differs = |field: &str| tree::get(old, &["status", field]) != tree::get(new, &["status", field]);
    let (verb, plugin) = match part {
        _ if !resource.is("certificates.k8s.io", "certificatesigningrequests") => return Ok(()),
        Part::Approval => ("approve", AdmissionPlugin::CertificateApproval),
        Part::Status if differs("certificate") || differs("conditions") => {
            ("sign", AdmissionPlugin::CertificateSigning)
        }
        _ => return Ok(()),
    };
    if !cluster.has_plugin(plugin) {
        return Ok(());
    }
    let signer = tree::text(old, &["spec", "signerName"]);
    let (group, resource_name) = ("certificates.k8s.io", "signers");
    let may = |name: &str| {
        let action = ResourceAction { verb, group, resource: resource_name, name, ..ResourceAction::default() };
        decide(cluster, user, action.into()).map(|decision| decision.is_allowed)
    };
    if may(signer)? {
        return Ok(());
    }
    if let Some((domain, _)) = signer.split_once('/')
        && may(&format!("{domain}/*"))?
    {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(Status::forbidden(&resource.group_resource(), new.name(), why).into())
}
