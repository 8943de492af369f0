//! Liveness check of a leader's renewals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::elector::{LeaderElector, SharedElector};

/// Unhealthy if this process leads and has not renewed for longer than the lease duration plus a
/// tolerance.
#[derive(Clone, Default)]
#[doc(alias = "NewLeaderHealthzAdaptor")]
pub struct HealthzAdaptor {
    shared: Option<Arc<SharedElector>>,
    tolerance: Duration,
}

impl HealthzAdaptor {
    /// Healthy until an elector is set.
    #[inline]
    pub fn new(tolerance: Duration) -> Self {
        HealthzAdaptor { shared: None, tolerance }
    }

    /// Checks this elector from now on.
    #[doc(alias = "SetLeaderElection")]
    #[inline]
    pub fn watch(&mut self, elector: &LeaderElector) {
        self.shared = Some(elector.shared.clone());
    }

    /// Its health.
    ///
    /// # Errors
    /// If the lease of a leader has expired unnoticed.
    #[inline]
    pub fn check(&self) -> Result<(), LeaseNotRenewed> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let seen = shared.seen.borrow();
        let Some(renewed_at) = seen.renewed_at.filter(|_| seen.leader == shared.identity) else { return Ok(()) };
        let since = renewed_at.elapsed();
        if since > shared.options.lease_duration.saturating_add(self.tolerance) {
            Err(LeaseNotRenewed { name: shared.name.clone(), since })
        } else {
            Ok(())
        }
    }
}

/// A leader that does not renew its lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {name} for {since:?}")]
pub struct LeaseNotRenewed {
    /// The lease.
    pub name: String,
    /// When it was last renewed.
    pub since: Duration,
}

impl fmt::Debug for HealthzAdaptor {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthzAdaptor").field("tolerance", &self.tolerance).finish_non_exhaustive()
    }
}
