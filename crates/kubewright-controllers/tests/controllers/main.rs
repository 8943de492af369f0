//! The controllers over the embedded server, in simulated time.

mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod ephemeral_volumes;
mod faults;
mod hooks;
mod ingress_manager;
mod job;
mod job_claims;
mod job_ends;
mod job_indexes;
mod job_policies;
mod load_balancers;
mod node_lifecycle;
mod nodes;
mod replicaset;
mod root_ca_cert_publisher;
mod sample;
mod scheduler;
mod statefulset;
mod support;
mod terminating_owners;
mod token_secrets;
mod volumes;
