//! The server as its clients see it: over sockets, through memory, and as a function.

mod access;
mod accounts;
mod applying;
mod client;
mod control;
mod custom;
mod durable;
mod equivalence;
mod faulty;
mod housekeeping;
mod multiplexed;
mod mutations;
mod objects;
mod quotas;
mod security;
mod strangers;
mod subresources;
mod transport;
mod validation;
mod validation_cluster;
mod validation_devices;
mod validation_jobs;
mod validation_pods;
mod validation_status;
mod watching;
