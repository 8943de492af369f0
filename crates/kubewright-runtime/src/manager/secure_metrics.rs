//! `/metrics` over HTTPS, for callers that the API server admits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::endpoints::{ServedPages, text_of};
use super::error::ManagerError;
use crate::access::AccessFilter;
use crate::https::{self, BoundServer, CertificateMetrics, Handler, HttpsError, ServingCertificate};

/// How long responses may take after the stop.
const GRACE: Duration = Duration::from_secs(1);

/// Serves `/metrics` over HTTPS. A caller needs a bearer token of the cluster with the permission
/// `get` on the path, as with controller-runtime's `WithAuthenticationAndAuthorization`.
///
/// The program needs `create` on `tokenreviews` and `subjectaccessreviews`: the ClusterRole
/// `system:auth-delegator`.
#[doc(alias = "WithAuthenticationAndAuthorization")]
#[doc(alias = "SecureServing")]
#[derive(Debug)]
pub struct SecureMetrics {
    address: SocketAddr,
    certificate: ServingCertificate,
    bound: Option<oneshot::Sender<SocketAddr>>,
}

impl SecureMetrics {
    /// Metrics at this address.
    pub fn new(address: SocketAddr, certificate: impl Into<ServingCertificate>) -> Self {
        SecureMetrics { address, certificate: certificate.into(), bound: None }
    }

    /// Sends the bound address, for use with port 0.
    #[must_use]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    pub(super) async fn bind(self) -> Result<BoundServer, ManagerError> {
        let bound = https::bind(self.address, self.certificate, Arc::default()).await.map_err(|error| match error {
            HttpsError::Listen { address, source } => ManagerError::Listen { address, source },
            HttpsError::Certificate(source) => ManagerError::Certificate(source),
        })?;
        if let Some(tell) = self.bound {
            let _ = tell.send(bound.address().unwrap_or(self.address));
        }
        Ok(bound)
    }
}

/// Serves until told to stop.
pub(super) async fn serve(
    bound: BoundServer,
    endpoints: ServedPages,
    filter: AccessFilter,
    metrics: CertificateMetrics,
    stop: CancellationToken,
) {
    let (endpoints, filter) = (Arc::new(endpoints), Arc::new(filter));
    let handler: Handler = Arc::new(move |request| {
        let (endpoints, filter) = (endpoints.clone(), filter.clone());
        let (request, _) = request.into_parts();
        Box::pin(async move {
            if let Some(refusal) = endpoints.refusal(&request) {
                return refusal;
            }
            let verb = request.method.as_str().to_ascii_lowercase();
            match filter.admit(&request.headers, &verb, request.uri.path()).await {
                Ok(()) => endpoints.answer(request).await,
                Err((status, text)) => text_of(status, format!("{text}\n")),
            }
        })
    });
    bound.serve(handler, Some(metrics), GRACE, &stop).await;
}
