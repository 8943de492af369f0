//! A candidate's view of the lease, and single attempts to acquire or renew it.

use kubewright_client::Error;
use kubewright_client::clock;
use kubewright_core::Str;
use tokio::time::Instant;

use super::lock::{LeaderElectionRecord, ResourceLock};
use super::options::LeaderElectionOptions;
use crate::error::chain;

/// A candidate's view of the lease.
pub(super) struct Candidate {
    lock: Box<dyn ResourceLock>,
    identity: Str,
    options: LeaderElectionOptions,
    observed: LeaderElectionRecord,
    /// When the record last changed, as observed by this process. Only this clock counts; times in
    /// the record are informational.
    observed_at: Instant,
    /// The last logged failure, until the lease is read again.
    told: String,
}

/// The purpose of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptKind {
    /// To acquire the lease from any previous holder.
    Acquire,
    /// To renew the lease.
    Renew,
}

/// A successful attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcquiredLease {
    /// The earliest start of the lease for others: before the write was sent.
    pub(super) since: Instant,
}

impl Candidate {
    #[inline]
    pub(super) fn new(lock: Box<dyn ResourceLock>, identity: Str, options: LeaderElectionOptions) -> Self {
        Candidate {
            lock,
            identity,
            options,
            observed: LeaderElectionRecord::default(),
            observed_at: Instant::now(),
            told: String::new(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> &dyn ResourceLock {
        &*self.lock
    }

    #[inline]
    pub(super) fn observed(&self) -> &LeaderElectionRecord {
        &self.observed
    }

    /// Whether the observed record names this candidate.
    #[inline]
    pub(super) fn is_leader(&self) -> bool {
        self.observed.holder_identity == self.identity
    }

    /// Whether the observed record names another candidate.
    #[inline]
    pub(super) fn is_held_by_another(&self) -> bool {
        !self.observed.holder_identity.is_empty() && !self.is_leader()
    }

    #[inline]
    fn is_lease_valid(&self, now: Instant) -> bool {
        self.observed_at + self.observed.duration() > now
    }

    /// Acquires or renews the lease, if possible. A renewal never acquires a free lease: another
    /// candidate may have led and released it in between, and a later leader has a different
    /// fencing token.
    #[doc(alias = "tryAcquireOrRenew")]
    #[inline]
    pub(super) async fn try_once(&mut self, aim: AttemptKind) -> Option<AcquiredLease> {
        let now = Instant::now();
        if self.options.is_coordinated {
            return self.try_coordinated(now).await;
        }
        let clock = Some(clock::now_micros());
        let mut record = LeaderElectionRecord {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: self.options.lease_duration_seconds(),
            acquire_time: clock,
            renew_time: clock,
            ..LeaderElectionRecord::default()
        };
        // A leader knows the lease and need not read it.
        if self.is_leader() && self.is_lease_valid(now) {
            record.acquire_time = self.observed.acquire_time;
            record.leader_transitions = self.observed.leader_transitions;
            match self.lock.update(&record).await {
                Ok(()) => return Some(self.holds(record, now)),
                Err(error) => tracing::debug!(lease = self.lock.describe(), %error, "lease not renewed at once"),
            }
        }
        if let Some(metrics) = self.options.metrics.get() {
            metrics.slow_path(&self.lock.describe());
        }
        let found = match self.lock.get().await {
            Ok(found) => found,
            Err(error) => return self.failed("lease not read", &error),
        };
        let Some(found) = found else {
            // The lease was deleted. The transition counter continues nevertheless, so that leaders
            // stay distinguishable.
            if self.is_leader() && aim == AttemptKind::Renew {
                record.acquire_time = self.observed.acquire_time;
                record.leader_transitions = self.observed.leader_transitions;
            } else if self.observed != LeaderElectionRecord::default() {
                record.leader_transitions = self.observed.leader_transitions.saturating_add(1);
            }
            return match self.lock.create(&record).await {
                Ok(()) => Some(self.holds(record, now)),
                Err(error) => self.failed("lease not created", &error),
            };
        };
        self.observe(found);
        if self.is_held_by_another() && self.is_lease_valid(now) || aim == AttemptKind::Renew && !self.is_leader() {
            return None;
        }
        if self.is_leader() {
            record.acquire_time = self.observed.acquire_time;
            record.leader_transitions = self.observed.leader_transitions;
        } else {
            record.leader_transitions = self.observed.leader_transitions.saturating_add(1);
        }
        match self.lock.update(&record).await {
            Ok(()) => Some(self.holds(record, now)),
            Err(error) => self.failed("lease not acquired", &error),
        }
    }

    /// Renews a lease that the control plane has assigned to us.
    #[doc(alias = "tryCoordinatedRenew")]
    #[inline]
    async fn try_coordinated(&mut self, now: Instant) -> Option<AcquiredLease> {
        match self.lock.get().await {
            Ok(Some(found)) => self.observe(found),
            Ok(None) => return None,
            Err(error) => return self.failed("lease not read", &error),
        }
        let is_end_of_term = self.observed.preferred_holder.as_ref().is_some_and(|holder| !holder.is_empty());
        if !self.is_lease_valid(now) || !self.is_leader() || is_end_of_term {
            return None;
        }
        let mut record = self.observed.clone();
        record.renew_time = Some(clock::now_micros());
        record.lease_duration_seconds = self.options.lease_duration_seconds();
        match self.lock.update(&record).await {
            Ok(()) => Some(self.holds(record, now)),
            Err(error) => self.failed("lease not renewed", &error),
        }
    }

    /// Releases the lease, if it is still ours.
    ///
    /// # Errors
    /// If the request fails, or the lease has changed: then it must be read again.
    #[inline]
    pub(super) async fn try_release(&mut self) -> Result<(), Error> {
        // An abandoned renewal may have succeeded, so the known state is not sufficient.
        let Some(found) = self.lock.get().await? else { return Ok(()) };
        self.observe(found);
        if !self.is_leader() {
            return Ok(());
        }
        let clock = Some(clock::now_micros());
        let record = LeaderElectionRecord {
            lease_duration_seconds: 1,
            acquire_time: clock,
            renew_time: clock,
            leader_transitions: self.observed.leader_transitions,
            ..LeaderElectionRecord::default()
        };
        self.lock.update(&record).await?;
        self.holds(record, Instant::now());
        Ok(())
    }

    #[inline]
    fn observe(&mut self, found: LeaderElectionRecord) {
        self.told.clear();
        if found != self.observed {
            self.observed = found;
            self.observed_at = Instant::now();
        }
    }

    #[inline]
    fn holds(&mut self, record: LeaderElectionRecord, since: Instant) -> AcquiredLease {
        self.observed = record;
        self.observed_at = Instant::now();
        AcquiredLease { since }
    }

    #[inline]
    fn failed(&mut self, what: &str, error: &Error) -> Option<AcquiredLease> {
        let (lease, cause) = (self.lock.describe(), chain(error));
        // Losing against another candidate is expected. Other failures are logged once while they
        // repeat.
        if error.is_conflict() || error.is_already_exists() || cause == self.told {
            tracing::debug!(lease, identity = %self.identity, error = cause, "{what}");
        } else {
            tracing::warn!(lease, identity = %self.identity, error = cause, "{what}, and tried again");
            self.told = cause;
        }
        None
    }
}
