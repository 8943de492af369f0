//! What controllers run on, driven as a user would, over the embedded server.

mod election;
mod election_simulation;
mod frozen;
mod support;
