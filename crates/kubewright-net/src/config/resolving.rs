//! Resolves a kubeconfig, or a pod, to a client configuration.

use kubewright_core::{Map, Value};

use super::client_config::Config;
use super::in_cluster::InCluster;
use super::origin::{Origin, entry};
use super::proxy_choice::ProxyChoice;
use super::tls_options::TlsOptions;
use crate::credentials::{CertificateSource, ClientCertificate, Credentials, Exec, Impersonation, KeySource, Oidc};
use crate::environment::EnvironmentVariables;
use crate::error::ConfigError;
use crate::kubeconfig::{
    AuthInfo, Cluster, Kubeconfig, LoadingRules, Overrides, Section, SelectedEntries, check_cluster, check_user,
};
use crate::server_address::server_uri;

/// The cluster extension for exec plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

impl Config {
    /// Finds a configuration as kubectl does: `KUBECONFIG`, else `.kube/config` in the home
    /// directory, else the pod.
    ///
    /// # Errors
    /// If a kubeconfig exists but cannot be used, or nothing is configured at all.
    #[doc(alias = "BuildConfigFromFlags")]
    pub fn infer() -> Result<Self, ConfigError> {
        let rules = LoadingRules::from_environment(&EnvironmentVariables::process());
        Config::infer_from(&rules, &Overrides::default(), &InCluster::new())
    }

    /// Finds a configuration in these kubeconfigs, or in this pod if there is no current context or
    /// it names no cluster. Overrides apply to both.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    #[doc(alias = "NewNonInteractiveDeferredLoadingClientConfig")]
    pub fn infer_from(rules: &LoadingRules, overrides: &Overrides, pod: &InCluster) -> Result<Self, ConfigError> {
        let kubeconfig = rules.load()?;
        let selected = kubeconfig.select(overrides)?;
        let is_nowhere = selected.cluster_name.is_none() && overrides.cluster.server.is_none();
        if is_nowhere && pod.is_possible() {
            let mut config = pod.config()?;
            config.timeout = overrides.timeout;
            if let Some(namespace) = selected.namespace {
                config.default_namespace = namespace;
            }
            if overrides.user.token.is_some() || overrides.user.token_file.is_some() {
                config.credentials.token.clone_from(&overrides.user.token);
                config.credentials.token_file.clone_from(&overrides.user.token_file);
            }
            if let Some(file) = &overrides.cluster.certificate_authority {
                config.tls.authority = Some(CertificateSource::File(file.clone()));
            }
            config.impersonation = impersonation(&overrides.user).or(config.impersonation);
            return Ok(config);
        }
        let mut config = Config::from_kubeconfig(&kubeconfig, overrides).map_err(|error| match error {
            ConfigError::Empty => ConfigError::Nowhere { files: rules.files().into_iter().map(Into::into).collect() },
            error => error,
        })?;
        // A pod with a kubeconfig still uses its own namespace, unless the kubeconfig names one.
        if selected.namespace.is_none() && pod.is_possible() {
            config.default_namespace = pod.namespace().unwrap_or(config.default_namespace);
        }
        if let Some(Oidc { store, .. }) = &mut config.credentials.oidc {
            *store = Some(rules.clone());
        }
        Ok(config)
    }

    /// The configuration of a context: the current one, unless `overrides` name another.
    ///
    /// # Errors
    /// If an entry of the context is missing or invalid; the error names file, entry and field.
    pub fn from_kubeconfig(kubeconfig: &Kubeconfig, overrides: &Overrides) -> Result<Self, ConfigError> {
        let selected = kubeconfig.select(overrides)?;
        if selected.cluster == Cluster::default() {
            return Err(match &selected.cluster_name {
                Some(name) if !kubeconfig.clusters.contains_key(name) => kubeconfig.missing("cluster", name),
                None if kubeconfig.current_context.is_none() && !kubeconfig.contexts.is_empty() => {
                    ConfigError::NoContext { contexts: kubeconfig.contexts.keys().cloned().collect() }
                }
                _ => ConfigError::Empty,
            });
        }
        if let Some(name) = selected.user_name.as_ref().filter(|name| !kubeconfig.users.contains_key(*name)) {
            return Err(kubeconfig.missing("user", name));
        }
        let mut errors = Vec::new();
        check_cluster(selected.cluster_name.as_deref().unwrap_or_default(), &selected.cluster, &mut errors);
        check_user(selected.user_name.as_deref().unwrap_or_default(), &selected.user, &mut errors);
        if let Some(error) = ConfigError::of_all(errors) {
            return Err(error);
        }
        let mut config = of_entries(selected)?;
        config.timeout = overrides.timeout;
        Ok(config)
    }
}

fn of_entries(selected: SelectedEntries) -> Result<Config, ConfigError> {
    let SelectedEntries { cluster, cluster_name, user, user_name, namespace } = selected;
    let needs_tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify;
    let server = cluster.server.as_deref().unwrap_or_default();
    let server = server_uri(server, needs_tls).map_err(ConfigError::Invalid)?;
    let mut config = Config::new(&server.to_string())?;
    config.origin = Origin {
        cluster: entry("clusters", cluster_name.as_deref(), cluster.origin.as_deref()),
        user: entry("users", user_name.as_deref(), user.origin.as_deref()),
    };
    if let Some(url) = &cluster.proxy_url {
        config.proxy = ProxyChoice::Url(url.clone());
    }
    config.disable_compression = cluster.disable_compression;
    config.impersonation = impersonation(&user);
    if let Some(namespace) = namespace {
        config.default_namespace = namespace;
    }
    if config.is_secure() {
        config.tls = tls(&cluster);
        config.credentials = credentials(&cluster, user, user_name)?;
    } else {
        // As in client-go: the server may differ from the one the entry was written for.
        tracing::debug!("the server is reached without TLS, so TLS and credentials of the kubeconfig are left out");
    }
    Ok(config)
}

fn tls(cluster: &Cluster) -> TlsOptions {
    let authority = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => Some(CertificateSource::Data(data.clone())),
        (None, file) => file.clone().map(CertificateSource::File),
    };
    TlsOptions { authority, insecure: cluster.insecure_skip_tls_verify, server_name: cluster.tls_server_name.clone() }
}

fn impersonation(user: &AuthInfo) -> Option<Impersonation> {
    Some(Impersonation {
        user: user.impersonate.clone()?,
        uid: user.impersonate_uid.clone(),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_user_extra.clone(),
    })
}

fn credentials(cluster: &Cluster, user: AuthInfo, user_name: Option<String>) -> Result<Credentials, ConfigError> {
    let certificate = match (user.client_certificate_data, user.client_certificate) {
        (Some(data), _) => Some(CertificateSource::Data(data)),
        (None, file) => file.map(CertificateSource::File),
    };
    let key = match (user.client_key_data, user.client_key) {
        (Some(data), _) => Some(KeySource::Data(data)),
        (None, file) => file.map(KeySource::File),
    };
    let client_certificate = certificate.zip(key).map(|(certificate, key)| ClientCertificate { certificate, key });
    let mut credentials = Credentials {
        client_certificate,
        token: user.token,
        token_file: user.token_file,
        username: user.username,
        password: user.password,
        ..Credentials::default()
    };
    if let Some(provider) = user.auth_provider {
        match provider.name.as_deref() {
            Some("oidc") => {
                credentials.oidc = Some(Oidc { settings: provider.config, user: user_name, store: None });
            }
            other => {
                let name = other.unwrap_or_default();
                let problem = format!("auth-provider {name:?} has been removed from Kubernetes; use an exec plugin");
                return Err(ConfigError::Invalid(problem));
            }
        }
    }
    credentials.exec = user.exec.map(|config| Exec::new(config, cluster_info(cluster)));
    Ok(credentials)
}

/// The cluster info for an exec plugin.
fn cluster_info(cluster: &Cluster) -> Value {
    let mut info = Cluster { extensions: Default::default(), unknown: Map::new(), ..cluster.clone() };
    if info.certificate_authority_data.is_none() {
        // Plugins receive data instead of files, because they may run elsewhere.
        let file = info.certificate_authority.as_ref().and_then(|file| std::fs::read(file).ok());
        info.certificate_authority_data = file.map(Into::into);
    }
    info.certificate_authority = None;
    let mut value = info.to_value();
    if let (Some(map), Some(extension)) = (value.as_object_mut(), cluster.extensions.get(EXEC_EXTENSION)) {
        map.insert("config", extension.clone());
    }
    value
}
