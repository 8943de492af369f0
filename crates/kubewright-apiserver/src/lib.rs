//! A Kubernetes API server in a library.
//!
//! Start at [`storage`]: it gives every write a revision and remembers the recent past. What an
//! object is, which requests are allowed and how answers look is decided above it.

pub mod accept;
pub mod discovery;
mod hash;
pub mod openapi;
pub mod storage;
pub mod table;
mod tree;
