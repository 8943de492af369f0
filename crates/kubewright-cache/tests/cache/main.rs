//! The cache, driven as a user would.

mod caches;
mod delta_fifo;
mod fifo;
mod real_fifo;
mod reflector;
mod script;
mod store;
mod support;
