//! Announces this process as a candidate for coordinated leader election.

use std::fmt;
use std::time::Duration;

use kubewright_client::clock;
use kubewright_client::{Api, Client, Result};
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{
    DynamicObject, FieldSelector, GroupVersionKind, GroupVersionResource, MicroTime, Object, ObjectKey, Str, Value,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum interval between renewals.
const PERIOD: Duration = Duration::from_secs(5 * 60);

/// Retry delay after an error. The control plane waits a few seconds for a reply.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Default request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const GROUP: &str = "coordination.k8s.io";
const VERSION: &str = "v1beta1";

/// A `LeaseCandidate` object (KEP-4355): renewed every five minutes, and whenever the control plane
/// pings it.
///
/// Use it with a [`coordinated`](super::LeaderElectionOptions::coordinated) elector of the same
/// identity.
#[doc(alias = "NewCandidate")]
pub struct LeaseCandidate {
    candidates: Api<DynamicObject>,
    key: ObjectKey,
    lease: Str,
    binary_version: Str,
    emulation_version: Str,
    strategy: Str,
}

impl LeaseCandidate {
    /// A candidate with this key for `lease`, in versions such as `1.36.0`. The control plane
    /// chooses the oldest emulation version.
    pub fn new(
        client: &Client,
        key: ObjectKey,
        lease: impl Into<Str>,
        binary_version: impl Into<Str>,
        emulation_version: impl Into<Str>,
    ) -> Self {
        let client = client.clone().default_request_timeout(REQUEST_TIMEOUT).add_user_agent("leader-election");
        let resource = GroupVersionResource::from_static(GROUP, VERSION, "leasecandidates");
        LeaseCandidate {
            candidates: client.dynamic(resource).namespace(key.namespace().clone()),
            key,
            lease: lease.into(),
            binary_version: binary_version.into(),
            emulation_version: emulation_version.into(),
            strategy: Str::from_static("OldestEmulationVersion"),
        }
    }

    /// Maintains the object until `stop` is cancelled. Errors are retried.
    #[inline]
    pub async fn run(&self, stop: &CancellationToken) {
        stop.run_until_cancelled(self.keep()).await;
    }

    #[inline]
    async fn keep(&self) {
        let mut renewed: Option<Instant> = None;
        loop {
            let is_due = renewed.is_none_or(|renewed| renewed.elapsed() >= PERIOD);
            let asked = match self.look(is_due).await {
                Ok((is_renewed, version)) => {
                    if is_renewed {
                        renewed = Some(Instant::now());
                    }
                    let left = renewed.map_or(PERIOD, |renewed| PERIOD.saturating_sub(renewed.elapsed()));
                    // A timeout is not an error: the renewal is due.
                    timeout(left, self.asked(&version)).await.unwrap_or(Ok(true))
                }
                Err(error) => Err(error),
            };
            match asked {
                Ok(true) => continue,
                // Watches end from time to time.
                Ok(false) => {}
                Err(error) => tracing::warn!(candidate = %self.key, %error, "lease candidate not renewed"),
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Renews the object if it is due or pinged; returns whether it was, and its version.
    #[inline]
    async fn look(&self, is_due: bool) -> Result<(bool, Str)> {
        let Some(mut found) = self.candidates.get_opt(self.key.name()).await? else {
            let created = self.candidates.create(&self.candidate()).await?;
            return Ok((true, created.resource_version().into()));
        };
        if !is_due && !is_asked(&found) {
            return Ok((false, found.resource_version().into()));
        }
        renew(&mut found);
        let updated = self.candidates.update(&found).await?;
        Ok((true, updated.resource_version().into()))
    }

    /// Waits until the control plane pings or the object is deleted; `false` if the watch ended
    /// before.
    #[inline]
    async fn asked(&self, version: &str) -> Result<bool> {
        let only = FieldSelector::everything().equals("metadata.name", self.key.name().clone());
        let mut watch = self.candidates.watch(&WatchOptions::default().fields(only).resource_version(version)).await?;
        while let Some(event) = watch.next().await {
            match event? {
                WatchEvent::Added(candidate) | WatchEvent::Modified(candidate) if is_asked(&candidate) => {
                    return Ok(true);
                }
                WatchEvent::Deleted(_) => return Ok(true),
                WatchEvent::Error(status) => return Err((*status).into()),
                _ => {}
            }
        }
        Ok(false)
    }

    #[inline]
    fn candidate(&self) -> DynamicObject {
        let kind = GroupVersionKind::from_static(GROUP, VERSION, "LeaseCandidate");
        let mut candidate = DynamicObject::new(&kind, self.key.name());
        candidate.set_namespace(self.key.namespace());
        for (field, value) in [
            ("leaseName", &self.lease),
            ("binaryVersion", &self.binary_version),
            ("emulationVersion", &self.emulation_version),
            ("strategy", &self.strategy),
        ] {
            candidate.set(&["spec", field], value.clone()).expect("a new object has room for its specification");
        }
        renew(&mut candidate);
        candidate
    }
}

/// Whether the control plane has pinged since the last renewal.
#[inline]
fn is_asked(candidate: &DynamicObject) -> bool {
    time(candidate, "pingTime").is_some_and(|asked| time(candidate, "renewTime").is_none_or(|renewed| asked > renewed))
}

#[inline]
fn time(candidate: &DynamicObject, field: &str) -> Option<MicroTime> {
    candidate.get(&["spec", field]).as_ref().and_then(Value::as_str)?.parse().ok()
}

#[inline]
fn renew(candidate: &mut DynamicObject) {
    // The control plane expects a time later than its ping, and its clock may be ahead of ours.
    let asked = time(candidate, "pingTime").and_then(|asked| asked.checked_add(Duration::from_micros(1)));
    let renewed = asked.map_or(clock::now_micros(), |asked| asked.max(clock::now_micros()));
    // The server rejects a spec that is not an object, with a reason.
    let _ = candidate.set(&["spec", "renewTime"], renewed.to_string());
}

impl fmt::Debug for LeaseCandidate {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCandidate").field("key", &self.key).field("lease", &self.lease).finish_non_exhaustive()
    }
}
