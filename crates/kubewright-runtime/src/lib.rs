//! What controllers run on.
//!
//! Start at [`Controller`], which brings the world in line with objects of one kind; at [`Manager`], which runs everything
//! of a process; and at [`LeaderElector`] for one active process among several.
//!
//! What holds everywhere: time is tokio's clock, each task has an owner that stops it and waits for it, nothing waits for
//! a stranger, and what depends on other machines' clocks is never trusted.

pub mod consistency;
pub mod controller;
#[cfg(feature = "derive")]
pub mod custom;
pub mod election;
pub mod events;
mod expectations;
mod finalizing;
pub mod manager;
mod metrics;
pub mod ownership;
mod random;
pub mod sharding;
#[cfg(feature = "testing")]
pub mod testing;
mod unwind;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use consistency::{Freshness, Operation, OwnApi};
pub use controller::{BoxError, Context, Controller, ControllerHandle, Outcome, Predicate};
pub use election::{LeaderElector, Leadership};
pub use expectations::Expectations;
pub use finalizing::{Finalizing, finalize};
/// Conditions in the status of an object.
pub use kubewright_core::condition;
pub use manager::{Manager, ManagerOptions, shutdown_on_signals};
pub use sharding::Sharding;
