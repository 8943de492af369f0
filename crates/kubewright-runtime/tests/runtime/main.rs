//! What controllers run on, driven as a user would, over the embedded server.

mod controller;
mod custom;
mod election;
mod election_simulation;
mod events;
mod frozen;
mod helpers;
mod isolation;
mod manager;
mod own_writes;
mod storm;
mod support;
