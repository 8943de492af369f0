//! Signs approved requests for the signers of Kubernetes.

use std::time::Duration;

use kubewright_api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kubewright_cache::Lister;
use kubewright_client::{Api, Client, clock};
use kubewright_core::{ObjectKey, Str};
use rcgen::CertificateSigningRequestParams;
use tokio_util::sync::CancellationToken;

use super::{
    API_SERVER_CLIENT, CLIENT_AUTH, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, KUBELET_CLIENT, KUBELET_SERVING,
    LEGACY_UNKNOWN, has_condition, is_issued, kubelet, parse, run_over,
};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::signing_authority::SigningAuthority;
use crate::worker::{Reconcile, Synced};

/// Lifetime of a certificate, unless the request asks for a shorter one.
/// kube-controller-manager: `--cluster-signing-duration`.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Shortest lifetime of a certificate.
const LIFETIME_MIN: Duration = Duration::from_secs(10 * 60);

struct Signing {
    client: Client,
    requests: Lister<CertificateSigningRequest>,
    authority: SigningAuthority,
}

/// Signs approved requests until `stop` is cancelled. Does nothing without an authority.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "CSRSigningController")]
pub(crate) async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let Some(authority) = context.signing_authority.clone() else {
        tracing::info!("certificate signing requests are not signed: there is no certificate authority");
        stop.cancelled().await;
        return Ok(());
    };
    let client = context.client().clone();
    run_over(context, stop, |requests| Signing { client, requests, authority }).await
}

impl Reconcile for Signing {
    const NAME: &'static str = "csr-signing";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(request) = self.requests.get(key.name()) else { return Ok(None) };
        if is_issued(&request) || !has_condition(&request, "Approved") || has_condition(&request, "Failed") {
            return Ok(None);
        }
        let spec = &request.spec;
        let signer = spec.signer_name.as_str();
        if ![API_SERVER_CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN].contains(&signer) {
            return Ok(None);
        }
        let Some(parsed) = parse(&request) else { return Ok(None) };
        let mut signed = (*request).clone();
        let status = signed.status.get_or_insert_default();
        match self.certificate(signer, parsed, &spec.usages, lifetime(spec.expiration_seconds)) {
            Ok(certificate) => status.certificate = Some(certificate.as_bytes().into()),
            Err(why) => status.conditions.push(CertificateSigningRequestCondition {
                type_: "Failed".into(),
                status: "True".into(),
                reason: Some("SignerValidationFailure".into()),
                message: Some(why.into()),
                last_update_time: Some(clock::now()),
                ..CertificateSigningRequestCondition::default()
            }),
        }
        match Api::<CertificateSigningRequest>::all(&self.client).update_status(&signed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }
}

impl Signing {
    /// The certificate for a request, in PEM, or why this signer does not sign it.
    fn certificate(
        &self,
        signer: &str,
        request: CertificateSigningRequestParams,
        usages: &[Str],
        lifetime: Duration,
    ) -> Result<String, String> {
        match signer {
            API_SERVER_CLIENT => check_client_usages(usages)?,
            KUBELET_CLIENT => kubelet::check_client(&request, usages)?,
            KUBELET_SERVING => kubelet::check_serving(&request, usages)?,
            // Legacy requests are not restricted.
            _ => {}
        }
        self.authority.sign(request, usages, lifetime)
    }
}

/// A client certificate needs the usage `client auth`, and may have two others.
fn check_client_usages(usages: &[Str]) -> Result<(), String> {
    let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    if usages.iter().any(|usage| usage == CLIENT_AUTH) {
        return Ok(());
    }
    Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"))
}

/// The lifetime of a certificate: the requested one within bounds, or the default.
fn lifetime(requested: Option<i32>) -> Duration {
    match requested {
        None => LIFETIME,
        Some(seconds) => Duration::from_secs(seconds.max(0).unsigned_abs().into()).clamp(LIFETIME_MIN, LIFETIME),
    }
}
