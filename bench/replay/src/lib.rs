//! Canned Kubernetes pods, the same synthetic object as JSON and as protobuf, and the server that
//! plays them.

pub mod data;
pub mod pb;
pub mod podgen;
pub mod request;
pub mod server;
