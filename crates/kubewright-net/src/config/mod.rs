//! Client configuration: from kubeconfigs, from the pod, or explicit.
//!
//! [`Config`] configures a client. [`Config::infer`] finds it as kubectl does; [`Kubeconfig`] and
//! [`LoadingRules`] are for programs that read or change kubeconfigs, [`InCluster`] is for pods.

mod client_config;
mod in_cluster;
mod origin;
mod proxy_choice;
mod resolving;
mod tls_options;
mod user_agent;

pub use client_config::Config;
pub use in_cluster::InCluster;
pub use origin::Origin;
pub use proxy_choice::ProxyChoice;
pub use tls_options::TlsOptions;

pub use crate::credentials::CertificateSource;
pub use crate::environment::EnvironmentVariables;
pub use crate::error::{ConfigError, EntryError};
pub use crate::kubeconfig::{
    AuthInfo, AuthProvider, Cluster, Context, ExecConfig, ExecEnv, InteractiveMode, Kubeconfig, LoadingRules, Overrides,
};
