//! Certificate signing requests: automatic approval, signing, and removal of old ones.
//!
//! The rules are those of kube-controller-manager. Requests of users wait for
//! `kubectl certificate approve`; only kubelet client certificates are approved automatically.

mod approving;
mod cleaner;
mod kubelet;
mod signing;

use kubewright_api::certificates::v1::CertificateSigningRequest;
use kubewright_cache::{Event, Lister};
use kubewright_core::{Object, ObjectKey};
use kubewright_workqueue::RateLimitingQueue;
use rcgen::CertificateSigningRequestParams;
use tokio_util::sync::CancellationToken;

pub(crate) use approving::run as run_approving;
pub(crate) use cleaner::run as run_cleaner;
pub(crate) use signing::run as run_signing;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{self, Reconcile, work};

/// Signs client certificates for the API server. Every approved request with client usages is
/// signed.
const API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signs client certificates of kubelets.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs serving certificates of kubelets.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signs any approved request. The API server trusts such certificates with no particular purpose.
const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// The usages of a client certificate.
const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Runs a reconciler of requests until `stop` is cancelled.
async fn run_over<R>(
    context: &ControllerContext,
    stop: &CancellationToken,
    reconciler: impl FnOnce(Lister<CertificateSigningRequest>) -> R,
) -> Result<(), Error>
where
    R: Reconcile<Key = ObjectKey>,
{
    let queue: RateLimitingQueue<ObjectKey> = worker::queue(context, R::NAME);
    let requests = context.factory().informer::<CertificateSigningRequest>();
    let handler = requests.add_handler({
        let queue = queue.clone();
        move |event: &Event<CertificateSigningRequest>| queue.add(event.key())
    })?;
    context.factory().start(stop);
    if handler.synced().await {
        let reconciler = reconciler(requests.lister());
        work(std::sync::Arc::new(reconciler), &queue, context, stop).await;
    }
    handler.remove();
    Ok(())
}

/// Whether a condition of this type is true.
fn has_condition(request: &CertificateSigningRequest, kind: &str) -> bool {
    let conditions = request.status.iter().flat_map(|status| status.conditions.iter());
    // In older versions of the API, conditions had no status.
    let is_true = |status: &str| matches!(status, "True" | "");
    conditions.into_iter().any(|condition| condition.type_ == kind && is_true(&condition.status))
}

/// Whether a certificate has been issued.
fn is_issued(request: &CertificateSigningRequest) -> bool {
    request.status.as_ref().and_then(|status| status.certificate.as_ref()).is_some_and(|pem| !pem.is_empty())
}

/// The PKCS 10 request, with its signature verified.
fn parse(request: &CertificateSigningRequest) -> Option<CertificateSigningRequestParams> {
    let text = std::str::from_utf8(&request.spec.request).unwrap_or_default();
    match CertificateSigningRequestParams::from_pem(text) {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let cause = &error as &dyn std::error::Error;
            tracing::warn!(name = request.name(), cause, "the certificate request cannot be read");
            None
        }
    }
}
