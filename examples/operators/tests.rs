//! Tests of the operators. Each one runs as its service account, with the permissions of its
//! manifests and nothing else.

mod support;

#[path = "mirror/main.rs"]
#[allow(dead_code, reason = "`main` is for the program")]
mod mirror;

#[path = "namespace_labeller/main.rs"]
#[allow(dead_code, reason = "`main` is for the program")]
mod namespace_labeller;

#[path = "certificate_issuer/main.rs"]
#[allow(dead_code, reason = "`main` is for the program")]
mod certificate_issuer;

#[path = "cache_cluster/main.rs"]
#[allow(dead_code, reason = "`main` is for the program")]
mod cache_cluster;

#[path = "sharded_prober/main.rs"]
#[allow(dead_code, reason = "`main` is for the program")]
mod sharded_prober;
