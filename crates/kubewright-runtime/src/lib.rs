//! What controllers run on.
//!
//! Start at [`LeaderElector`] for one active process among several.
//!
//! What holds everywhere: time is tokio's clock, each task has an owner that stops it and waits for it, and what depends on
//! other machines' clocks is never trusted.

pub mod election;
mod random;

pub use election::{LeaderElector, Leadership};
