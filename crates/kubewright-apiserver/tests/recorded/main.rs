//! Answers of a real server, compared with what the parts of this crate make of the same input.
//!
//! The recordings lie beside the repository and are not part of it; without them these tests say so and pass.

mod discovery;
mod openapi;
mod patches;
mod scenario;
mod tables;
