//! The lifecycle of a CertificateSigningRequest.

use std::time::Duration;

use kubewright_api::certificates::v1::CertificateSigningRequest;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::selector::FieldSelector;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{ByteString, Str};

use super::error::{CertificateError, SigningRefusal};
use crate::api::Api;
use crate::error::Result;
use crate::watch::RetryWatcher;

/// Delay before the server is contacted again after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A created request.
pub(super) struct Submitted {
    api: Api<CertificateSigningRequest>,
    pub(super) name: String,
    uid: String,
}

impl Submitted {
    /// Requests a certificate from this signer.
    #[doc(alias = "RequestCertificate")]
    pub(super) async fn new(
        api: Api<CertificateSigningRequest>,
        request: ByteString,
        signer_name: &str,
        usages: impl IntoIterator<Item = Str>,
        lifetime: Option<Duration>,
    ) -> Result<Self> {
        let mut object = CertificateSigningRequest::default();
        object.metadata.generate_name = Some("csr-".into());
        object.spec.request = request;
        object.spec.signer_name = signer_name.into();
        object.spec.usages = usages.into_iter().collect();
        object.spec.expiration_seconds = lifetime.map(|lifetime| i32::try_from(lifetime.as_secs()).unwrap_or(i32::MAX));
        let created = api.create(&object).await?;
        let name = created.metadata.name.as_deref().unwrap_or_default().to_owned();
        let uid = created.metadata.uid.as_deref().unwrap_or_default().to_owned();
        Ok(Submitted { api, name, uid })
    }

    /// Waits for the certificate without a time limit. Retries if the server is unreachable.
    #[doc(alias = "WaitForCertificate")]
    pub(super) async fn signed(&self) -> Result<ByteString, CertificateError> {
        let fields = FieldSelector::everything().equals("metadata.name", self.name.as_str());
        loop {
            match self.api.list(&ListOptions::default().fields(fields.clone())).await {
                Ok(list) => {
                    let Some(request) = list.items.first() else { return Err(self.deleted()) };
                    if let Some(certificate) = self.outcome(request)? {
                        return Ok(certificate);
                    }
                    let version = list.metadata.resource_version.clone().unwrap_or_default();
                    let options = WatchOptions::default().fields(fields.clone()).resource_version(version);
                    // It ends when the version has expired; then a new list shows the current
                    // state.
                    let mut events = RetryWatcher::new(self.api.clone(), options).map_err(CertificateError::Request)?;
                    while let Some(event) = events.next().await {
                        match event {
                            WatchEvent::Added(request) | WatchEvent::Modified(request) => {
                                if let Some(certificate) = self.outcome(&request)? {
                                    return Ok(certificate);
                                }
                            }
                            WatchEvent::Deleted(_) => return Err(self.deleted()),
                            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                        }
                    }
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(error, name = self.name, "cannot see whether the certificate was signed");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The outcome: the certificate, nothing yet, or a negative decision.
    fn outcome(&self, request: &CertificateSigningRequest) -> Result<Option<ByteString>, CertificateError> {
        if request.metadata.uid.as_deref() != Some(&*self.uid) {
            return Err(self.deleted());
        }
        let Some(status) = &request.status else { return Ok(None) };
        let mut is_approved = false;
        for condition in &status.conditions {
            let decision = match &*condition.type_ {
                "Denied" => SigningRefusal::Denied,
                "Failed" => SigningRefusal::Failed,
                "Approved" => {
                    is_approved = true;
                    continue;
                }
                _ => continue,
            };
            let text = |text: &Option<Str>| text.as_deref().unwrap_or_default().to_owned();
            return Err(CertificateError::Refused {
                name: self.name.clone(),
                decision,
                reason: text(&condition.reason),
                message: text(&condition.message),
            });
        }
        Ok(status.certificate.clone().filter(|certificate| is_approved && !certificate.is_empty()))
    }

    fn deleted(&self) -> CertificateError {
        CertificateError::Deleted { name: self.name.clone() }
    }
}
