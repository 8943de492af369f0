//! Overrides of a kubeconfig, and the resulting entries.

use std::time::Duration;

use super::document::{Cluster, Context, Kubeconfig};
use super::user::AuthInfo;
use crate::error::ConfigError;

/// Overrides of a kubeconfig, for example from command-line flags. Empty fields change nothing.
#[derive(Debug, Clone, Default)]
#[doc(alias = "ConfigOverrides")]
pub struct Overrides {
    /// The context to use.
    pub current_context: Option<String>,
    /// Overrides of the context: names of cluster and user, and the namespace.
    pub context: Context,
    /// Overrides of the cluster.
    pub cluster: Cluster,
    /// Overrides of the user.
    pub user: AuthInfo,
    /// Request timeout. See [`Config::timeout`](crate::config::Config::timeout).
    pub timeout: Option<Duration>,
}

/// The selected entries with overrides.
#[derive(Debug, Clone)]
pub(crate) struct SelectedEntries {
    pub(crate) cluster: Cluster,
    pub(crate) cluster_name: Option<String>,
    pub(crate) user: AuthInfo,
    pub(crate) user_name: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl Kubeconfig {
    /// Selects the entries of the context and applies the overrides.
    pub(crate) fn select(&self, overrides: &Overrides) -> Result<SelectedEntries, ConfigError> {
        let context_name = overrides.current_context.as_ref().or(self.current_context.as_ref());
        let mut context = Context::default();
        if let Some(name) = context_name {
            context = self.contexts.get(name).cloned().ok_or_else(|| self.missing("context", name))?;
        }
        let wanted = &overrides.context;
        let cluster_name = wanted.cluster.clone().or(context.cluster);
        let user_name = wanted.user.clone().or(context.user);
        let mut cluster = match &cluster_name {
            None => Cluster::default(),
            Some(name) => match self.clusters.get(name) {
                Some(cluster) => cluster.clone(),
                // A dangling name in the context is left to validation, which knows the file.
                None if wanted.cluster.is_none() => Cluster::default(),
                None => return Err(self.missing("cluster", name)),
            },
        };
        let mut user = match &user_name {
            None => AuthInfo::default(),
            Some(name) => match self.users.get(name) {
                Some(user) => user.clone(),
                None if wanted.user.is_none() => AuthInfo::default(),
                None => return Err(self.missing("user", name)),
            },
        };
        override_cluster(&mut cluster, &overrides.cluster);
        override_user(&mut user, &overrides.user);
        let namespace = wanted.namespace.clone().or(context.namespace);
        Ok(SelectedEntries { cluster, cluster_name, user, user_name, namespace })
    }
}

fn override_cluster(cluster: &mut Cluster, wanted: &Cluster) {
    if wanted.server.is_some() {
        cluster.server.clone_from(&wanted.server);
        // The name belonged to the certificate of the other server.
        cluster.tls_server_name = None;
    }
    if wanted.tls_server_name.is_some() {
        cluster.tls_server_name.clone_from(&wanted.tls_server_name);
    }
    let has_authority = wanted.certificate_authority.is_some() || wanted.certificate_authority_data.is_some();
    if wanted.insecure_skip_tls_verify || has_authority {
        cluster.insecure_skip_tls_verify = wanted.insecure_skip_tls_verify;
        cluster.certificate_authority.clone_from(&wanted.certificate_authority);
        cluster.certificate_authority_data.clone_from(&wanted.certificate_authority_data);
    }
    if wanted.proxy_url.is_some() {
        cluster.proxy_url.clone_from(&wanted.proxy_url);
    }
    cluster.disable_compression |= wanted.disable_compression;
}

fn override_user(user: &mut AuthInfo, wanted: &AuthInfo) {
    if wanted.client_certificate.is_some() || wanted.client_certificate_data.is_some() {
        user.client_certificate.clone_from(&wanted.client_certificate);
        user.client_certificate_data.clone_from(&wanted.client_certificate_data);
    }
    if wanted.client_key.is_some() || wanted.client_key_data.is_some() {
        user.client_key.clone_from(&wanted.client_key);
        user.client_key_data.clone_from(&wanted.client_key_data);
    }
    if wanted.token.is_some() || wanted.token_file.is_some() {
        user.token.clone_from(&wanted.token);
        user.token_file.clone_from(&wanted.token_file);
    }
    if wanted.username.is_some() || wanted.password.is_some() {
        user.username.clone_from(&wanted.username);
        user.password.clone_from(&wanted.password);
    }
    if wanted.impersonate.is_some() {
        user.impersonate.clone_from(&wanted.impersonate);
    }
    if wanted.impersonate_uid.is_some() {
        user.impersonate_uid.clone_from(&wanted.impersonate_uid);
    }
    if !wanted.impersonate_groups.is_empty() {
        user.impersonate_groups.clone_from(&wanted.impersonate_groups);
    }
    if !wanted.impersonate_user_extra.is_empty() {
        user.impersonate_user_extra.clone_from(&wanted.impersonate_user_extra);
    }
    if wanted.exec.is_some() {
        user.exec.clone_from(&wanted.exec);
    }
    if wanted.auth_provider.is_some() {
        user.auth_provider.clone_from(&wanted.auth_provider);
    }
}
