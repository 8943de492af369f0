//! The public API of the cache.

mod controller;
mod delta_fifo;
mod errors;
mod factory;
mod fifo;
mod handlers;
mod histories;
mod informer;
mod listers;
mod metrics;
mod mutable_server;
mod namespaces;
mod not_found;
mod ordering;
mod outages;
mod real_fifo;
mod reflector;
mod script;
mod special_stores;
mod stalled_server;
mod store;
mod support;
mod undecodable;
mod until;
