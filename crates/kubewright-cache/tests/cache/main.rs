//! The public API of the cache.

mod caches;
mod controller;
mod delta_fifo;
mod errors;
mod factory;
mod fifo;
mod handlers;
mod histories;
mod informer;
mod listers;
mod live;
mod metrics;
mod namespaces;
mod not_found;
mod outages;
mod promises;
mod real_fifo;
mod reflector;
mod script;
mod silence;
mod store;
mod support;
mod undecodable;
mod until;
