//! Compares this crate's output with recorded responses of a real API server.
//!
//! The recordings are not part of the repository. Without them, these tests are skipped.

mod discovery;
mod openapi;
mod patches;
mod scenario;
mod tables;
