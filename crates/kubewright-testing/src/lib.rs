//! Helpers that the tests of several crates share. Not published, and only a dev-dependency.

mod complexity;

pub use complexity::{assert_linear, processor_time};
