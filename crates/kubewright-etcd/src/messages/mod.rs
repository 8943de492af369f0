//! The messages of etcd's API, as far as the client uses them.
//!
//! Field numbers are those of `rpc.proto` and `kv.proto` of etcd.

pub(crate) mod request;
pub(crate) mod response;
