//! The cache, driven as a user would.

mod store;
mod support;
