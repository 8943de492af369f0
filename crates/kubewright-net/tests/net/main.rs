//! Configuration, credentials and connections, with the embedded server and with misbehaving
//! servers.

mod authorities;
mod certificates;
mod directory;
mod entries;
mod exec;
mod faults;
mod in_cluster;
mod kubeconfig;
mod loading;
mod oidc;
mod overrides;
mod pooling;
mod proxies;
mod remote;
#[allow(dead_code, reason = "the tests of client certificates use the rest")]
mod scripted;
mod shrinking;
mod talking;
mod tokens;
mod validation;
mod writing;
