//! What one candidate knows of the lease, and what it does about it in one try.

use kubewright_client::Error;
use kubewright_core::{MicroTime, Str};
use tokio::time::Instant;

use super::lock::{Lock, Record};
use super::options::LeaderElectionOptions;
use crate::controller::chain;

/// A candidate's view of the lease.
pub(super) struct Candidate {
    lock: Box<dyn Lock>,
    identity: Str,
    options: LeaderElectionOptions,
    observed: Record,
    /// When the record was last seen to change, or written. Only this clock counts; times in the record are for people.
    observed_at: Instant,
    /// The failure that was told last, until the lease is read again.
    told: String,
}

/// What a try is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// To lead, whoever did so before.
    Acquire,
    /// To go on leading.
    Renew,
}

/// A try that made us leader, or kept us so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// From when others count the lease at the earliest: before the write was sent.
    pub(super) since: Instant,
}

impl Candidate {
    #[inline]
    pub(super) fn new(lock: Box<dyn Lock>, identity: Str, options: LeaderElectionOptions) -> Self {
        Candidate {
            lock,
            identity,
            options,
            observed: Record::default(),
            observed_at: Instant::now(),
            told: String::new(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> &dyn Lock {
        &*self.lock
    }

    #[inline]
    pub(super) fn observed(&self) -> &Record {
        &self.observed
    }

    /// Whether the record that was last seen names us.
    #[inline]
    pub(super) fn is_leader(&self) -> bool {
        self.observed.holder_identity == self.identity
    }

    /// Whether the record that was last seen names somebody else.
    #[inline]
    pub(super) fn is_held_by_another(&self) -> bool {
        !self.observed.holder_identity.is_empty() && !self.is_leader()
    }

    #[inline]
    fn is_lease_valid(&self, now: Instant) -> bool {
        self.observed_at + self.observed.duration() > now
    }

    /// Takes the lease or renews it, if it can be had. One that is to be renewed is not taken: if it is nobody's, another may have led and
    /// freed it meanwhile, and who leads from then on does so by another token.
    #[doc(alias = "tryAcquireOrRenew")]
    #[inline]
    pub(super) async fn try_once(&mut self, aim: Aim) -> Option<Held> {
        let now = Instant::now();
        if self.options.is_coordinated {
            return self.try_coordinated(now).await;
        }
        let clock = Some(MicroTime::now());
        let mut record = Record {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: self.options.lease_duration_seconds(),
            acquire_time: clock,
            renew_time: clock,
            ..Record::default()
        };
        // A leader knows the lease, and needs not ask for it.
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
            // Somebody has deleted it. The numbers by which leaders are told from those before them go on nevertheless.
            if self.is_leader() && aim == Aim::Renew {
                record.acquire_time = self.observed.acquire_time;
                record.leader_transitions = self.observed.leader_transitions;
            } else if self.observed != Record::default() {
                record.leader_transitions = self.observed.leader_transitions.saturating_add(1);
            }
            return match self.lock.create(&record).await {
                Ok(()) => Some(self.holds(record, now)),
                Err(error) => self.failed("lease not created", &error),
            };
        };
        self.observe(found);
        if self.is_held_by_another() && self.is_lease_valid(now) || aim == Aim::Renew && !self.is_leader() {
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
            Err(error) => self.failed("lease not taken", &error),
        }
    }

    /// Renews a lease that the control plane has given us.
    #[doc(alias = "tryCoordinatedRenew")]
    #[inline]
    async fn try_coordinated(&mut self, now: Instant) -> Option<Held> {
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
        record.renew_time = Some(MicroTime::now());
        record.lease_duration_seconds = self.options.lease_duration_seconds();
        match self.lock.update(&record).await {
            Ok(()) => Some(self.holds(record, now)),
            Err(error) => self.failed("lease not renewed", &error),
        }
    }

    /// Frees the lease, if it is still ours.
    ///
    /// # Errors
    /// If the server does not answer, or somebody has written meanwhile: then it has to be looked at again.
    #[inline]
    pub(super) async fn try_release(&mut self) -> Result<(), Error> {
        // A renewal that was given up may have been carried out, so that what we know is not enough.
        let Some(found) = self.lock.get().await? else { return Ok(()) };
        self.observe(found);
        if !self.is_leader() {
            return Ok(());
        }
        let clock = Some(MicroTime::now());
        let record = Record {
            lease_duration_seconds: 1,
            acquire_time: clock,
            renew_time: clock,
            leader_transitions: self.observed.leader_transitions,
            ..Record::default()
        };
        self.lock.update(&record).await?;
        self.holds(record, Instant::now());
        Ok(())
    }

    #[inline]
    fn observe(&mut self, found: Record) {
        self.told.clear();
        if found != self.observed {
            self.observed = found;
            self.observed_at = Instant::now();
        }
    }

    #[inline]
    fn holds(&mut self, record: Record, since: Instant) -> Held {
        self.observed = record;
        self.observed_at = Instant::now();
        Held { since }
    }

    #[inline]
    fn failed(&mut self, what: &str, error: &Error) -> Option<Held> {
        let (lease, cause) = (self.lock.describe(), chain(error));
        // That another candidate was faster is how it should be. The rest is told once, as long as it stays the same.
        if error.is_conflict() || error.is_already_exists() || cause == self.told {
            tracing::debug!(lease, identity = %self.identity, error = cause, "{what}");
        } else {
            tracing::warn!(lease, identity = %self.identity, error = cause, "{what}, and tried again");
            self.told = cause;
        }
        None
    }
}
