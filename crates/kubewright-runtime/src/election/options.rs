//! Options of leader election.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::metrics::ElectionMetrics;

/// Maximum factor of the retry period, for jitter between candidates.
pub(super) const JITTER_FACTOR: f64 = 1.2;

/// Options of a candidate. By default leases last 15 s, are renewed every 2 s, and given up after
/// 10 s without success.
#[derive(Debug, Clone)]
#[doc(alias = "LeaderElectionConfig")]
pub struct LeaderElectionOptions {
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    pub(super) releases: bool,
    pub(super) is_coordinated: bool,
    pub(super) seed: Option<u64>,
    /// Set by the options, or later by a manager.
    pub(super) metrics: Arc<OnceLock<ElectionMetrics>>,
}

impl Default for LeaderElectionOptions {
    #[inline]
    fn default() -> Self {
        LeaderElectionOptions {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            releases: true,
            is_coordinated: false,
            seed: None,
            metrics: Arc::default(),
        }
    }
}

impl LeaderElectionOptions {
    /// How long others wait before they acquire a lease that is not renewed. 15 s by default;
    /// rounded down to seconds.
    #[doc(alias = "LeaseDuration")]
    #[must_use]
    #[inline]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// How long the leader tries to renew before it steps down. 10 s by default.
    #[doc(alias = "RenewDeadline")]
    #[must_use]
    #[inline]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// Delay between attempts. 2 s by default.
    #[doc(alias = "RetryPeriod")]
    #[must_use]
    #[inline]
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Whether to release the lease when leadership ends on purpose, so that the next leader need
    /// not wait. True by default: the lease is held until the work has ended, so this is safe.
    #[doc(alias = "ReleaseOnCancel")]
    #[must_use]
    #[inline]
    pub fn release_on_cancel(mut self, releases: bool) -> Self {
        self.releases = releases;
        self
    }

    /// Lets the control plane choose the leader: the lease is never created or acquired, only
    /// renewed, and no longer renewed once it names a preferred holder. Off by default.
    #[doc(alias = "Coordinated")]
    #[must_use]
    #[inline]
    pub fn coordinated(mut self) -> Self {
        self.is_coordinated = true;
        self
    }

    /// Seeds the jitter, for reproducible tests. Random by default.
    #[must_use]
    #[inline]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Exposes the leader in these metrics. None by default.
    #[must_use]
    #[inline]
    pub fn metrics(mut self, metrics: &ElectionMetrics) -> Self {
        self.metrics = Arc::new(OnceLock::from(metrics.clone()));
        self
    }

    /// The same options with separate metrics.
    #[inline]
    pub(super) fn apart(mut self) -> Self {
        self.metrics = Arc::new(OnceLock::clone(&self.metrics));
        self
    }

    #[inline]
    pub(super) fn validate(&self) -> Result<(), InvalidElection> {
        if self.lease_duration <= self.renew_deadline {
            return Err(InvalidElection::LeaseNotLongerThanDeadline);
        }
        if self.renew_deadline.as_secs_f64() <= JITTER_FACTOR * self.retry_period.as_secs_f64() {
            return Err(InvalidElection::DeadlineNotLongerThanRetries);
        }
        if self.lease_duration < Duration::from_secs(1) {
            return Err(InvalidElection::LeaseTooShort);
        }
        if self.seconds().is_none() {
            return Err(InvalidElection::LeaseTooLong);
        }
        if self.retry_period.is_zero() {
            return Err(InvalidElection::NoRetryPeriod);
        }
        Ok(())
    }

    /// The lease duration in seconds, if it fits.
    #[inline]
    fn seconds(&self) -> Option<i32> {
        i32::try_from(self.lease_duration.as_secs()).ok()
    }

    /// The lease duration in the record.
    #[inline]
    pub(super) fn lease_duration_seconds(&self) -> i32 {
        self.seconds().unwrap_or(i32::MAX)
    }

    /// The lease duration as others see it.
    #[inline]
    pub(super) fn whole_seconds(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// Timeout of requests for the lease.
    #[inline]
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

/// Why election options are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// A leader must give up before others take over.
    #[error("the lease duration must be greater than the renew deadline")]
    LeaseNotLongerThanDeadline,
    /// A leader must have time for a second attempt.
    #[error("the renew deadline must be greater than the retry period times 1.2")]
    DeadlineNotLongerThanRetries,
    /// Leases are counted in whole seconds.
    #[error("the lease duration must be at least one second")]
    LeaseTooShort,
    /// The seconds are stored as 32 bits.
    #[error("the lease duration must be at most 2147483647 seconds")]
    LeaseTooLong,
    /// Retrying without a delay would overload the server.
    #[error("the retry period must be greater than zero")]
    NoRetryPeriod,
    /// The name of a replica group is a label value.
    #[error("the name of the group must be the value of a label")]
    NotALabel,
    /// A candidate without a name looks like a free lease.
    #[error("the identity of a candidate must not be empty")]
    NoIdentity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_to_leave_time_to_step_down_and_to_retry() {
        // LE-1
        use InvalidElection::*;
        let seconds = Duration::from_secs_f64;
        for (lease, deadline, retry, wanted) in [
            (15.0, 10.0, 2.0, Ok(())),
            (60.0, 15.0, 5.0, Ok(())),
            (10.0, 10.0, 2.0, Err(LeaseNotLongerThanDeadline)),
            (15.0, 2.4, 2.0, Err(DeadlineNotLongerThanRetries)),
            (15.0, 2.5, 2.0, Ok(())),
            (15.0, 0.0, 0.0, Err(DeadlineNotLongerThanRetries)),
            (15.0, 1.0, 0.0, Err(NoRetryPeriod)),
            (0.9, 0.5, 0.1, Err(LeaseTooShort)),
            (2_147_483_647.5, 10.0, 2.0, Ok(())),
            (2_147_483_648.0, 10.0, 2.0, Err(LeaseTooLong)),
        ] {
            let options = LeaderElectionOptions::default()
                .lease_duration(seconds(lease))
                .renew_deadline(seconds(deadline))
                .retry_period(seconds(retry));
            assert_eq!(options.validate(), wanted, "{lease} {deadline} {retry}");
        }
    }

    #[test]
    fn requests_take_half_the_deadline_but_at_least_a_second() {
        // LE-12
        let options = LeaderElectionOptions::default();
        assert_eq!(options.request_timeout(), Duration::from_secs(5));
        assert_eq!(options.renew_deadline(Duration::from_millis(700)).request_timeout(), Duration::from_secs(1));
    }
}
