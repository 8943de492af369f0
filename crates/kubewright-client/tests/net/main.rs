//! Configuration, credentials and connections, against the embedded server and against servers that misbehave.

mod authorities;
mod certificate_files;
mod certificate_manager;
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
mod scripted;
mod shrinking;
mod signer;
mod talking;
mod tokens;
mod validation;
mod writing;
