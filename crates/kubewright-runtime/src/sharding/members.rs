//! Membership of replicas, by their leases.

use std::collections::HashMap;
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_client::{Api, Result};
use kubewright_core::options::{DeleteOptions, ListOptions};
use kubewright_core::{Object, Str};
use tokio::time::Instant;

use crate::election::LeaderElectionRecord;

/// A lease unchanged for this many times its duration is abandoned and deleted.
const ABANDONED_AFTER: u32 = 20;

/// A lease and when it last changed, by our own clock.
struct ObservedLease {
    record: LeaderElectionRecord,
    at: Instant,
}

/// The members, as seen by one replica.
#[derive(Default)]
pub(super) struct Members {
    observed_of: HashMap<Str, ObservedLease>,
}

impl Members {
    /// Reads the leases and returns the identities of the members, sorted.
    #[inline]
    pub(super) async fn look(&mut self, leases: &Api<Lease>, options: &ListOptions) -> Result<Vec<Str>> {
        let now = Instant::now();
        let mut seen = HashMap::new();
        let (mut alive, mut forgotten) = (Vec::new(), Vec::new());
        for lease in leases.list(options).await? {
            let record = lease.spec.as_ref().map(LeaderElectionRecord::from).unwrap_or_default();
            // As for the leader's lease, the observed time of a change counts, not the times in the
            // lease.
            let observed = match self.observed_of.remove(lease.name()) {
                Some(observed) if observed.record == record => observed,
                _ => ObservedLease { record, at: now },
            };
            let (idle, lasts) = (now - observed.at, observed.record.duration().max(Duration::from_secs(1)));
            if idle < lasts && !observed.record.holder_identity.is_empty() {
                alive.push(observed.record.holder_identity.clone());
            } else if idle >= lasts * ABANDONED_AFTER {
                forgotten.push(lease.clone());
            }
            seen.insert(Str::from(lease.name()), observed);
        }
        self.observed_of = seen;
        for lease in forgotten {
            let unchanged = DeleteOptions::default().uid(lease.uid()).resource_version(lease.resource_version());
            if let Err(error) = leases.delete_with(lease.name(), &unchanged).await {
                tracing::debug!(lease = lease.name(), %error, "an old lease of a replica not removed");
            }
        }
        alive.sort_unstable();
        Ok(alive)
    }
}
