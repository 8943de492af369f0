//! The NodeRestriction plugin, whose rules are in `kubewright_auth::node_restriction`.

use kubewright_core::meta::v1::Status;
use kubewright_core::{ByteString, Value};

use super::control::{Attributes, Operation};
use super::plugins::AdmissionPlugin;
use super::state::ClusterState;
use crate::feature_gates::FeatureGate;
use kubewright_auth::User;
use kubewright_auth::authorization::{Action, ResourceAction, decide};
use kubewright_auth::node_restriction::{RestrictedOperation, RestrictedWrite, Restriction, restriction};
use kubewright_objects::object::Meta;
use kubewright_objects::rejection::Rejection;

/// Rejects the write of a kubelet to an object that is not its own.
pub(super) fn check(
    cluster: &dyn ClusterState,
    user: &User,
    subresource: &str,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<(), Rejection> {
    let operation = match attributes.operation {
        Operation::Create => RestrictedOperation::Create,
        Operation::Update => RestrictedOperation::Update,
        Operation::Delete => RestrictedOperation::Delete,
        Operation::Connect => return Ok(()),
    };
    if !cluster.has_plugin(AdmissionPlugin::NodeRestriction) {
        return Ok(());
    }
    let Attributes { resource, namespace, name, old, .. } = *attributes;
    let takes_all_requests = cluster.has_feature(FeatureGate::AllowInsecureKubeletCertificateSigningRequests);
    let common_name: Option<fn(&str) -> _> = if takes_all_requests { None } else { Some(common_name) };
    let objects = cluster;
    let write =
        RestrictedWrite { objects, user, operation, resource, subresource, namespace, name, object, old, common_name };
    let why = match restriction(&write) {
        Restriction::None => return Ok(()),
        Restriction::Forbidden(why) => why,
        Restriction::IfAuthorizedFor(audience) => {
            let verb = "request-serviceaccounts-token-audience";
            let action = ResourceAction { verb, resource: audience, namespace, name, ..ResourceAction::default() };
            if !cluster.has_feature(FeatureGate::ServiceAccountNodeAudienceRestriction)
                || decide(cluster, user, Action::Resource(action))?.is_allowed
            {
                return Ok(());
            }
            let why = "is not authorized to request tokens for this audience";
            format!("audience {audience:?} not found in pod spec volume, {} {why}", user.name)
        }
    };
    let own = object.map(Meta::name).unwrap_or_default();
    let name = if name.is_empty() { own } else { name };
    Err(Status::forbidden(&resource.group_resource(), name, why).into())
}

/// The common name of a certificate request in PEM and base64.
fn common_name(encoded: &str) -> Result<String, String> {
    let unreadable = |why: String| format!("unable to parse csr: {why}");
    let pem = ByteString::from_base64(encoded.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
    let pem = std::str::from_utf8(&pem).map_err(|error| unreadable(error.to_string()))?;
    let parsed = rcgen::CertificateSigningRequestParams::from_pem(pem);
    let parsed = parsed.map_err(|error| unreadable(error.to_string()))?;
    Ok(match parsed.params.distinguished_name.get(&rcgen::DnType::CommonName) {
        Some(rcgen::DnValue::Utf8String(name)) => name.clone(),
        Some(rcgen::DnValue::PrintableString(name)) => name.as_str().to_owned(),
        _ => String::new(),
    })
}
