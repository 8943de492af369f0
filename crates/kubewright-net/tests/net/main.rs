//! Configuration, credentials and connections, with the embedded server and with misbehaving
//! servers.

mod authorities;
mod certificates;
mod directory;
mod error_entries;
mod exec;
mod faults;
mod in_cluster;
mod kubeconfig;
mod kubeconfig_writing;
mod loading;
mod minify;
mod oidc;
mod overrides;
mod pooling;
mod proxies;
mod remote;
mod requests;
#[allow(dead_code, reason = "the tests of client certificates use the rest")]
mod scripted;
mod tokens;
mod validation;
