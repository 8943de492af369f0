//! The runtime of controllers.
//!
//! Start at [`Controller`], which reconciles objects of one kind; at [`Manager`], which runs
//! everything of a process; and at [`LeaderElector`] for leader election.
//!
//! Invariants: time is tokio's clock; each task has an owner that stops it and waits for it; parts
//! do not block each other; clocks of other machines are never trusted.
//!
//! ```
//! use kubewright_api::core::v1::{ConfigMap, Secret};
//! use kubewright_apiserver::ApiServer;
//! use kubewright_cache::SharedInformerFactory;
//! use kubewright_core::Object;
//! use kubewright_runtime::{Controller, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! # let shutdown = tokio_util::sync::CancellationToken::new();
//! # shutdown.cancel();
//! let factory = SharedInformerFactory::new(&server.client(), Default::default());
//! let controller = Controller::<ConfigMap>::new("copy", &factory).owns::<Secret>().workers(4);
//! let reconcile = |map: std::sync::Arc<ConfigMap>, context: kubewright_runtime::Context| async move {
//!     println!("{} because {}", map.name(), context.reasons());
//!     Ok(Outcome::Done)
//! };
//! controller.run(reconcile, &shutdown).await?;
//! # Ok(()) }
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "secure-metrics")]
mod access;
#[cfg(feature = "https")]
pub mod certificates;
pub mod consistency;
pub mod controller;
#[cfg(feature = "derive")]
pub mod custom;
pub mod election;
mod error;
pub mod events;
mod expectations;
mod finalizing;
#[cfg(feature = "https")]
mod https;
mod lru;
pub mod manager;
mod metrics;
#[cfg(feature = "history")]
pub mod object_history;
mod own_writes;
pub mod ownership;
mod permissions;
mod random;
#[cfg(feature = "replay")]
pub mod replay;
#[cfg(feature = "https")]
mod rotation;
pub mod sharding;
#[cfg(feature = "testing")]
pub mod testing;
mod unwind;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use consistency::{Freshness, OperationResult, OwnApi};
pub use controller::{
    Context, Controller, ControllerHandle, Outcome, Owns, Predicate, ReconcileError, Reconciler, Requests, ResultExt,
    Watches,
};
pub use election::{LeaderElector, Leadership};
pub use error::BoxError;
pub use expectations::Expectations;
pub use finalizing::{Finalizing, finalize};
/// Conditions in the status of an object.
pub use kubewright_core::condition;
pub use manager::{Manager, ManagerOptions, shutdown_on_signals};
pub use permissions::Permissions;
pub use sharding::Sharding;
