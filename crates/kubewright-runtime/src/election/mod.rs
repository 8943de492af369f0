//! Leader election with a lease.
//!
//! A candidate acquires the [lease](ResourceLock) when it is free, or when it has not changed for
//! its duration, by the candidate's own clock. The holder renews it, and steps down if it cannot in
//! time. Clocks are never compared, so they may be wrong as long as they run at about the same
//! speed.
//!
//! Leadership is a value: [`LeaderElector::acquire`] returns a [`Leadership`], which ends by
//! itself. [`LeaderElector::run`] uses callbacks. Deliberate differences from client-go: a leader
//! whose renewals fail steps down before its lease can have expired for others, whatever the
//! durations; a lease is released only after the work has ended; and each leadership has a
//! [`FencingToken`], with which a store can reject a former leader.

mod callbacks;
mod candidate;
mod elector;
mod health;
mod identity;
mod leadership;
mod lease_candidate;
mod lock;
mod metrics;
mod options;

pub use callbacks::{LeaderCallbacks, LeadershipLost};
pub use elector::LeaderElector;
pub use health::{HealthzAdaptor, LeaseNotRenewed};
pub(crate) use identity::host_name;
pub use identity::unique_identity;
pub use leadership::{FencingToken, Leadership};
pub use lease_candidate::LeaseCandidate;
pub use lock::{LeaderElectionRecord, LeaseLock, ResourceLock};
pub use metrics::ElectionMetrics;
pub use options::{InvalidElection, LeaderElectionOptions};
