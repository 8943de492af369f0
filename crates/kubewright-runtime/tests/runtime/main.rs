//! The runtime of controllers over the embedded server.

mod caches;
mod controller;
mod custom;
mod election;
mod election_run;
mod election_simulation;
mod events;
mod faulty_lock;
mod finalizers_and_ownership;
mod frozen;
mod idle_connections;
mod lease_candidate;
mod manager;
mod no_leadership;
mod optional_relations;
mod overlapping_informers;
mod own_writes;
mod partial_caches;
mod relations;
mod sharding;
mod signals;
mod start_up;
mod storm;
mod support;
mod webhook;
