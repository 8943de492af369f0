//! The writes of a controller that its caches do not show yet.

mod cache_limits;
mod ledger;
mod write;

pub(crate) use cache_limits::{CacheLimits, Coverage};
pub(crate) use ledger::Ledger;
pub(crate) use write::{ExpectedEffect, OwnWrite};
