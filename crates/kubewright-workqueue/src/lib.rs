//! Work queues for reconcilers: keys in, workers out, each key with one worker at a time.
//!
//! Knows nothing of Kubernetes: a key is anything that can be cloned, compared and hashed.
//!
//! Start at [`WorkQueue`]. [`DelayingQueue`] adds keys after a delay, [`RateLimitingQueue`] after a delay that a
//! [`limiter`] decides, and [`PriorityQueue`] hands out important keys first without starving the others. No queue has a
//! task of its own: the workers that wait for keys watch the clock as well, and time is tokio's, so tests can simulate it.

mod ageing;
mod claim;
#[cfg(not(shuttle))]
mod clock;
/// The clock that tests of interleavings advance.
#[cfg(shuttle)]
pub mod clock;
mod deadlines;
mod delaying;
mod fairness;
mod get;
pub mod limiter;
mod metrics;
mod options;
mod priority;
mod queue;
mod rate_limiting;
mod state;
mod sync;
mod table;
mod view;
mod waiters;

pub use ageing::Ageing;
pub use claim::Claim;
pub use delaying::DelayingQueue;
pub use get::Get;
pub use limiter::RateLimiter;
pub use metrics::Metrics;
pub use options::Options;
pub use priority::{AddOptions, LOW_PRIORITY, PriorityQueue};
pub use queue::WorkQueue;
pub use rate_limiting::RateLimitingQueue;
pub use view::{Delayed, Processing, View, Waiting};
