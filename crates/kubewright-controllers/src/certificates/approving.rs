//! Approves the client certificates of kubelets whose requesters have the permission for it.

use kubewright_api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kubewright_api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kubewright_cache::Lister;
use kubewright_client::{Api, Client};
use kubewright_core::ObjectKey;
use tokio_util::sync::CancellationToken;

use super::{KUBELET_CLIENT, has_condition, is_issued, kubelet, parse, run_over};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{Reconcile, Synced};

struct Approving {
    client: Client,
    requests: Lister<CertificateSigningRequest>,
}

/// Approves kubelet client certificates until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "CSRApprovingController")]
pub(crate) async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let client = context.client().clone();
    run_over(context, stop, |requests| Approving { client, requests }).await
}

impl Reconcile for Approving {
    const NAME: &'static str = "csr-approving";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(request) = self.requests.get(key.name()) else { return Ok(None) };
        if is_issued(&request) || has_condition(&request, "Approved") || has_condition(&request, "Denied") {
            return Ok(None);
        }
        let spec = &request.spec;
        if spec.signer_name != KUBELET_CLIENT {
            return Ok(None);
        }
        let Some(parsed) = parse(&request) else { return Ok(None) };
        if kubelet::check_client(&parsed, &spec.usages).is_err() {
            return Ok(None);
        }
        // A kubelet renews its own certificate, or a bootstrap identity requests the first one.
        let is_own = spec.username.as_deref() == Some(kubelet::common_name(&parsed).as_str());
        if is_own && self.may_create(spec, "selfnodeclient").await? {
            self.approve(&request, "Auto approving self kubelet client certificate after SubjectAccessReview.").await?;
        } else if self.may_create(spec, "nodeclient").await? {
            self.approve(&request, "Auto approving kubelet client certificate after SubjectAccessReview.").await?;
        } else {
            tracing::debug!(name = %key.name(), "the requester may not have its certificate approved automatically");
        }
        Ok(None)
    }
}

impl Approving {
    /// Whether the requester may create this subresource of requests.
    async fn may_create(&self, spec: &CertificateSigningRequestSpec, subresource: &str) -> Result<bool, Error> {
        let attributes = ResourceAttributes {
            group: Some("certificates.k8s.io".into()),
            resource: Some("certificatesigningrequests".into()),
            verb: Some("create".into()),
            subresource: Some(subresource.into()),
            version: Some("*".into()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: spec.username.clone(),
                uid: spec.uid.clone(),
                groups: spec.groups.clone(),
                extra: spec.extra.clone(),
                resource_attributes: Some(attributes.into()),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviewed = Api::<SubjectAccessReview>::all(&self.client).create(&review).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    async fn approve(&self, request: &CertificateSigningRequest, message: &str) -> Result<(), Error> {
        let mut approved = request.clone();
        approved.status.get_or_insert_default().conditions.push(CertificateSigningRequestCondition {
            type_: "Approved".into(),
            status: "True".into(),
            reason: Some("AutoApproved".into()),
            message: Some(message.into()),
            ..CertificateSigningRequestCondition::default()
        });
        match Api::<CertificateSigningRequest>::all(&self.client).update_approval(&approved).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
