//! The controllers over the embedded server, in simulated time.

mod deployment;
mod replicaset;
mod support;
