//! Work queues for reconcilers: producers add keys, workers process them, one worker per key.
//!
//! Independent of Kubernetes: a key is any type that is `Clone`, `Eq` and `Hash`.
//!
//! Start at [`WorkQueue`]. [`DelayingQueue`] adds keys after a delay, [`RateLimitingQueue`] after a
//! delay that a [`limiter`] decides, and [`PriorityQueue`] hands out important keys first without
//! starving the others. No queue spawns a task: a waiting worker keeps time for delayed keys. Time
//! is tokio's, so tests can pause it.
//!
//! ```
//! use kubewright_workqueue::{QueueOptions, WorkQueue};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let queue = WorkQueue::new(QueueOptions::new());
//! queue.add("default/web");
//! queue.add("default/web");
//! assert_eq!(queue.len(), 1);
//!
//! // A key that is added while it is processed waits until its worker is done.
//! let claim = queue.get().await.expect("a key waits");
//! queue.add("default/web");
//! assert_eq!((*claim, queue.len()), ("default/web", 0));
//! drop(claim);
//! assert_eq!(queue.len(), 1);
//! # }
//! ```

mod ageing;
mod claim;
#[cfg(not(shuttle))]
mod clock;
/// The clock that tests under shuttle advance.
#[cfg(shuttle)]
pub mod clock;
mod deadlines;
mod delaying;
mod fairness;
mod gate;
mod get;
pub mod limiter;
mod metrics;
mod options;
mod priority;
mod queue;
mod rate_limiting;
mod shared_queue;
mod state;
mod sync;
mod table;
mod view;
mod waiters;

pub use ageing::Ageing;
pub use claim::Claim;
pub use delaying::DelayingQueue;
pub use gate::Gate;
pub use get::Get;
pub use limiter::RateLimiter;
pub use metrics::QueueMetrics;
pub use options::QueueOptions;
pub use priority::{AddOptions, LOW_PRIORITY, PriorityQueue};
pub use queue::WorkQueue;
pub use rate_limiting::RateLimitingQueue;
pub use view::{Delayed, Processing, QueueView, Waiting};
