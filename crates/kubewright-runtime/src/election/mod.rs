//! One leader among several processes, by a lease that all of them see.
//!
//! A candidate takes the [lease](Lock) when it is free, or when it has not changed for as long as it says, by the
//! candidate's own clock. The holder renews it, and steps down if it cannot in time. No clock is compared with
//! another's, so that clocks may be wrong as long as they run at about the same speed.
//!
//! Leadership is a value: [`LeaderElector::acquire`] gives a [`Leadership`], which ends by itself. [`LeaderElector::run`] is the
//! form with callbacks. Where Go differs on purpose: a leader whose renewals fail steps down before its lease can have
//! expired elsewhere, whatever the durations are; a lease is released only after the work has ended; and each
//! leadership has a [`FencingToken`], by which a store can refuse who was leader before.

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
pub use lock::{LeaseLock, Lock, Record};
pub use metrics::ElectionMetrics;
pub use options::{InvalidElection, LeaderElectionOptions};
