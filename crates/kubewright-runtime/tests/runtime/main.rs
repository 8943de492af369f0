//! The runtime of controllers over the embedded server.

mod caches;
mod chores;
mod controller;
mod custom;
mod election;
mod election_run;
mod election_simulation;
mod events;
mod frozen;
mod isolation;
mod lease_candidate;
mod manager;
mod no_leadership;
mod own_writes;
mod partial_caches;
mod relations;
mod sharding;
mod signals;
mod silent_peers;
mod start_up;
mod storm;
mod support;
mod two_shares;
mod webhook;
mod wire;
