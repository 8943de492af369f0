//! Removes requests that nobody needs any more.

use std::time::Duration;

use kubewright_api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kubewright_cache::Lister;
use kubewright_client::{Api, Client, clock};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, ObjectKey, Time};
use tokio_util::sync::CancellationToken;

use super::{is_issued, run_over};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::signing_authority::expiry;
use crate::worker::{Reconcile, Synced};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long a request stays after it has been approved and signed, denied, or has failed.
const DECIDED: Duration = HOUR;
/// How long a request waits for approval, and an approved one for its certificate.
const PENDING: Duration = HOUR.saturating_mul(24);

struct Cleaner {
    client: Client,
    requests: Lister<CertificateSigningRequest>,
}

/// Removes old requests until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "CSRCleanerController")]
pub(crate) async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let client = context.client().clone();
    run_over(context, stop, |requests| Cleaner { client, requests }).await
}

impl Reconcile for Cleaner {
    const NAME: &'static str = "csr-cleaner";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(request) = self.requests.get(key.name()) else { return Ok(None) };
        let Some(end) = end(&request) else { return Ok(None) };
        let left = end - clock::now().as_unix();
        if left > 0 {
            return Ok(Some(Duration::from_secs(left.unsigned_abs())));
        }
        // An approval in the meantime keeps the request.
        let options = DeleteOptions::default().uid(request.uid()).resource_version(request.resource_version());
        let requests = Api::<CertificateSigningRequest>::all(&self.client);
        match requests.delete_with(request.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(None),
        }
    }
}

/// When a request may be removed, in seconds since 1970.
fn end(request: &CertificateSigningRequest) -> Option<i64> {
    let status = request.status.as_ref();
    let conditions = status.map(|status| &status.conditions[..]).unwrap_or_default();
    if conditions.is_empty() {
        let created = request.metadata.creation_timestamp?;
        return Some(after(created, PENDING));
    }
    let end_of = |condition: &CertificateSigningRequestCondition| {
        let updated = condition.last_update_time?;
        match condition.type_.as_str() {
            "Denied" | "Failed" => Some(after(updated, DECIDED)),
            "Approved" if is_issued(request) => Some(after(updated, DECIDED)),
            "Approved" => Some(after(updated, PENDING)),
            _ => None,
        }
    };
    let certificate = status.and_then(|status| status.certificate.as_ref());
    let expires = certificate.and_then(|pem| expiry(pem)).map(Time::as_unix);
    conditions.iter().filter_map(end_of).chain(expires).min()
}

fn after(time: Time, delay: Duration) -> i64 {
    time.as_unix() + delay.as_secs() as i64
}
