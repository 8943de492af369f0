//! Static cost estimates: the highest cost of an expression for values of limited size.
//!
//! Prices are those of kube-apiserver, which rejects expensive rules by them. Every step, operator
//! and function has a price; work per item counts as often as a collection may have items. Sizes
//! come from [`SizeLimits`] or from the expression itself.

mod calls;
mod estimate;
mod estimator;
mod size;

pub(crate) use estimator::estimate;
pub use size::SizeLimits;
