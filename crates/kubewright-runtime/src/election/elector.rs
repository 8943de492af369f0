//! A candidate for leadership, and the task that renews its lease.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use kubewright_client::Client;
use kubewright_core::{Map, ObjectKey, Str};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::candidate::{AcquiredLease, AttemptKind, Candidate};
use super::leadership::{FencingToken, Leadership, LeadershipTerm};
use super::lock::{LeaseLock, ResourceLock};
use super::metrics::ElectionMetrics;
use super::options::{InvalidElection, JITTER_FACTOR, LeaderElectionOptions};
use crate::random::Random;

/// A candidate for one lease.
///
/// ```
/// # use kubewright_runtime::LeaderElector;
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(client: kubewright_client::Client, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
/// let mut elector = LeaderElector::new(&client, "kube-system", "my-controller", "host-1_4711", Default::default())?;
/// while let Some(leadership) = elector.acquire(&stop).await {
///     leadership.while_leading(async { /* what only one may do */ }).await;
///     leadership.release().await;
/// #   break;
/// }
/// # Ok(()) }
/// ```
#[doc(alias = "NewLeaderElector")]
pub struct LeaderElector {
    /// `None` during a leadership, whose task owns it.
    candidate: Arc<Mutex<Option<Candidate>>>,
    pub(super) shared: Arc<SharedElector>,
    /// Cancelled when the last leadership has ended completely.
    previous: CancellationToken,
}

pub(super) struct SharedElector {
    pub(super) identity: Str,
    pub(super) name: String,
    pub(super) options: LeaderElectionOptions,
    random: Random,
    pub(super) seen: watch::Sender<ElectionStatus>,
}

/// The publicly visible state of a candidate.
#[derive(Debug, Clone)]
pub(super) struct ElectionStatus {
    /// The leader; empty before it is known, or if there is none.
    pub(super) leader: Str,
    pub(super) renewed_at: Option<Instant>,
}

impl LeaderElector {
    /// A candidate with this identity for the lease of this namespace and name.
    ///
    /// Identities must be unique: see [`unique_identity`](super::unique_identity).
    ///
    /// # Errors
    /// If the durations leave no time to step down.
    pub fn new(
        client: &Client,
        namespace: impl Into<Str>,
        name: impl Into<Str>,
        identity: impl Into<Str>,
        options: LeaderElectionOptions,
    ) -> Result<Self, InvalidElection> {
        Self::labelled(client, ObjectKey::namespaced(namespace, name), identity, Map::new(), options)
    }

    /// Like [`new`](Self::new), with labels for the lease.
    ///
    /// # Errors
    /// If the durations leave no time to step down.
    pub fn labelled(
        client: &Client,
        lease: ObjectKey,
        identity: impl Into<Str>,
        labels: Map<Str>,
        options: LeaderElectionOptions,
    ) -> Result<Self, InvalidElection> {
        let lock = LeaseLock::new(client, lease, options.request_timeout()).labels(labels);
        Self::over(lock, identity, options)
    }

    /// A candidate whose record is stored by `lock`.
    ///
    /// # Errors
    /// If the durations leave no time to step down.
    pub fn over(
        lock: impl ResourceLock,
        identity: impl Into<Str>,
        options: LeaderElectionOptions,
    ) -> Result<Self, InvalidElection> {
        options.validate()?;
        let options = options.apart();
        let identity = identity.into();
        if identity.is_empty() {
            return Err(InvalidElection::NoIdentity);
        }
        let name = lock.describe();
        if let Some(metrics) = options.metrics.get() {
            metrics.set_leading(&name, false);
        }
        let random = Random::new(options.seed);
        let candidate = Candidate::new(Box::new(lock), identity.clone(), options.clone());
        let seen = watch::Sender::new(ElectionStatus { leader: Str::new(), renewed_at: None });
        let previous = CancellationToken::new();
        previous.cancel();
        Ok(LeaderElector {
            candidate: Arc::new(Mutex::new(Some(candidate))),
            shared: Arc::new(SharedElector { identity, name, options, random, seen }),
            previous,
        })
    }

    /// Exposes the leader in these metrics, unless others are set.
    #[inline]
    pub(crate) fn default_metrics(&self, metrics: &ElectionMetrics) {
        self.shared.options.metrics.get_or_init(|| {
            metrics.set_leading(&self.shared.name, self.is_leader());
            metrics.clone()
        });
    }

    /// The identity of this candidate.
    #[inline]
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// The leader as far as this candidate knows; empty if there is none.
    #[doc(alias = "GetLeader")]
    #[inline]
    pub fn leader(&self) -> Str {
        self.shared.seen.borrow().leader.clone()
    }

    /// Whether this candidate leads as far as it knows. To act on it, hold a [`Leadership`].
    #[doc(alias = "IsLeader")]
    #[inline]
    pub fn is_leader(&self) -> bool {
        self.leader() == self.shared.identity
    }

    /// Tries until it leads; `None` if `stop` was cancelled first. Without a leadership the caller
    /// must not act as leader.
    ///
    /// Cancel safe.
    ///
    /// The first attempt is immediate. Waits for the end of an earlier leadership, if there is one.
    #[inline]
    pub async fn acquire(&mut self, stop: &CancellationToken) -> Option<Leadership> {
        stop.run_until_cancelled(self.previous.cancelled()).await?;
        // Put back if this future is dropped during an attempt, with its observations.
        let slot = self.candidate.clone();
        let taken = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut borrowed = Borrowed { candidate: taken, slot };
        let candidate = borrowed.candidate.as_mut()?;
        let shared = self.shared.clone();
        let acquired = loop {
            let acquired = stop.run_until_cancelled(candidate.try_once(AttemptKind::Acquire)).await?;
            shared.observed(candidate);
            // A lease that expired during the request may belong to another candidate.
            if let Some(acquired) = acquired
                && Instant::now() < acquired.since + shared.options.whole_seconds()
            {
                break acquired;
            }
            let pause = shared.options.retry_period.mul_f64(1.0 + JITTER_FACTOR * shared.random.unit());
            stop.run_until_cancelled(sleep(pause)).await?;
        };
        let token =
            FencingToken { transitions: candidate.observed().leader_transitions, version: candidate.lock().version() };
        tracing::info!(lease = shared.name, identity = %shared.identity, "became leader");
        let (term, ended) = (Arc::new(LeadershipTerm::new()), CancellationToken::new());
        shared.renewed(&term, acquired);
        self.previous = ended.clone();
        let leadership = Leadership { term: term.clone(), token, ended: ended.clone() };
        tokio::spawn(async move {
            // Dropped in reverse order, even on a panic: leadership ends, the candidate is
            // returned, and then the next `acquire` may use it.
            let _ended = ended.drop_guard();
            let mut borrowed = borrowed;
            let _over = term.over.clone().drop_guard();
            let candidate = borrowed.candidate.as_mut().expect("taken above");
            shared.keep(candidate, &term).await;
        });
        Some(leadership)
    }
}

/// A candidate that returns to its slot on drop.
struct Borrowed {
    candidate: Option<Candidate>,
    slot: Arc<Mutex<Option<Candidate>>>,
}

impl Drop for Borrowed {
    #[inline]
    fn drop(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.candidate.take();
    }
}

impl SharedElector {
    /// Renews until renewals fail for too long, another candidate has the lease, or the term is
    /// over. Releases the lease only if its holder has released it: otherwise work may still be
    /// running.
    #[inline]
    async fn keep(&self, candidate: &mut Candidate, term: &LeadershipTerm) {
        while !term.over.is_cancelled() {
            let pause = term.over.run_until_cancelled(sleep(self.options.retry_period)).await;
            // Others may acquire the lease when it has expired, whatever the deadline.
            let deadline = (Instant::now() + self.options.renew_deadline).min(term.valid_until());
            if pause.is_none() || !self.renew(candidate, term, deadline).await {
                break;
            }
        }
        let is_on_purpose = term.over.is_cancelled();
        term.over.cancel();
        let is_released = term.is_released.load(Ordering::SeqCst);
        if let Some(metrics) = self.options.metrics.get() {
            metrics.set_leading(&self.name, false);
        }
        tracing::info!(lease = self.name, identity = %self.identity, is_on_purpose, "no longer leader");
        if is_on_purpose && is_released && self.options.releases {
            self.release(candidate).await;
        }
        self.observed(candidate);
        self.seen.send_if_modified(|seen| {
            let was_us = seen.leader == self.identity;
            if was_us {
                seen.leader = Str::new();
            }
            was_us
        });
    }

    /// Tries to renew until the deadline, or until the lease is not ours any more; true if it
    /// succeeded, or need not any more.
    #[inline]
    async fn renew(&self, candidate: &mut Candidate, term: &LeadershipTerm, deadline: Instant) -> bool {
        loop {
            let next = Instant::now() + self.options.retry_period;
            let attempt = timeout_at(deadline, candidate.try_once(AttemptKind::Renew));
            let Some(attempt) = term.over.run_until_cancelled(attempt).await else { return true };
            self.observed(candidate);
            match attempt {
                Ok(Some(acquired)) => {
                    self.renewed(term, acquired);
                    return true;
                }
                Err(_) => return false,
                // Another candidate has the lease, for example after it was deleted, or has had and
                // released it: two would lead until the deadline.
                Ok(None) if !candidate.is_leader() => return false,
                Ok(None) if next >= deadline => {
                    term.over.run_until_cancelled(sleep_until(deadline)).await;
                    return term.over.is_cancelled();
                }
                Ok(None) => {
                    if term.over.run_until_cancelled(sleep_until(next)).await.is_none() {
                        return true;
                    }
                }
            }
        }
    }

    #[inline]
    async fn release(&self, candidate: &mut Candidate) {
        let deadline = Instant::now() + self.options.renew_deadline;
        loop {
            match timeout_at(deadline, candidate.try_release()).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::debug!(lease = self.name, %error, "lease not released"),
                Err(_) => return,
            }
            let next = Instant::now() + self.options.retry_period.min(self.options.renew_deadline / 10);
            if next >= deadline {
                return;
            }
            sleep_until(next).await;
        }
    }

    #[inline]
    fn renewed(&self, term: &LeadershipTerm, acquired: AcquiredLease) {
        term.extend(acquired.since + self.options.whole_seconds());
        self.seen.send_modify(|seen| seen.renewed_at = Some(Instant::now()));
        if let Some(metrics) = self.options.metrics.get() {
            metrics.set_leading(&self.name, true);
        }
    }

    /// Publishes the leader, if it changed.
    #[inline]
    fn observed(&self, candidate: &Candidate) {
        let leader = &candidate.observed().holder_identity;
        let is_news = self.seen.send_if_modified(|seen| {
            let is_news = seen.leader != *leader;
            seen.leader = leader.clone();
            is_news
        });
        if is_news && candidate.is_held_by_another() {
            tracing::info!(lease = self.name, identity = %self.identity, %leader, "new leader observed");
        }
    }
}

impl fmt::Debug for LeaderElector {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LeaderElector");
        shown.field("lease", &self.shared.name).field("identity", &self.shared.identity);
        shown.field("leader", &self.leader()).finish_non_exhaustive()
    }
}
