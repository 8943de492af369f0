//! Validation of kubeconfigs.

use std::path::{Path, PathBuf};

use super::document::{Cluster, Context, Kubeconfig};
use super::user::{AuthInfo, EXEC_V1BETA1, ExecConfig, is_supported};
use crate::error::{ConfigError, EntryError};
use crate::proxy_url::ProxyUrl;
use crate::server_address::server_uri;

impl Kubeconfig {
    /// Checks every entry, and that the current context exists.
    ///
    /// # Errors
    /// Names all problems with file, entry and field. [`ConfigError::Empty`] if the kubeconfig is
    /// empty.
    #[inline]
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.is_empty() {
            return Err(ConfigError::Empty);
        }
        let mut errors = Vec::new();
        if let Some(name) = self.current_context.as_ref().filter(|name| !self.contexts.contains_key(*name)) {
            errors.push(self.missing("context", name));
        }
        for (name, context) in &self.contexts {
            check_context(self, name, context, &mut errors);
        }
        for (name, user) in &self.users {
            check_user(name, user, &mut errors);
        }
        for (name, cluster) in &self.clusters {
            check_cluster(name, cluster, &mut errors);
        }
        ConfigError::of_all(errors).map_or(Ok(()), Err)
    }

    /// The error for a name that no context, cluster or user has.
    pub(crate) fn missing(&self, kind: &'static str, name: &str) -> ConfigError {
        let known = match kind {
            "context" => self.contexts.keys().cloned().collect(),
            "cluster" => self.clusters.keys().cloned().collect(),
            _ => self.users.keys().cloned().collect(),
        };
        let clusters = self.clusters.values().map(|cluster| &cluster.origin);
        let users = self.users.values().map(|user| &user.origin);
        let contexts = self.contexts.values().map(|context| &context.origin);
        let mut files: Vec<PathBuf> = clusters.chain(users).chain(contexts).flatten().cloned().collect();
        files.sort();
        files.dedup();
        ConfigError::Missing { kind, name: name.to_owned(), known, files }
    }

    /// Whether nothing is configured.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.users.is_empty() && self.contexts.is_empty() && self.current_context.is_none()
    }
}

#[inline]
fn check_context(config: &Kubeconfig, name: &str, context: &Context, errors: &mut Vec<ConfigError>) {
    let mut check = EntryCheck { file: &context.origin, entry: format!("contexts[{name:?}]"), errors };
    match &context.cluster {
        None => check.fail("cluster", "is not given"),
        Some(cluster) if !config.clusters.contains_key(cluster) => {
            check.fail("cluster", format!("there is no cluster {cluster:?}"));
        }
        Some(_) => {}
    }
    match &context.user {
        None => check.fail("user", "is not given"),
        Some(user) if !config.users.contains_key(user) => check.fail("user", format!("there is no user {user:?}")),
        Some(_) => {}
    }
    let namespace = context.namespace.as_deref();
    if let Some(namespace) = namespace.filter(|namespace| !is_label(namespace)) {
        check.fail("namespace", format!("{namespace:?} is no name of a namespace"));
    }
}

/// Whether a text is a DNS label, as required for namespaces.
#[inline]
fn is_label(text: &str) -> bool {
    let ends_well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && ends_well(text.chars().next())
        && ends_well(text.chars().last())
}

#[inline]
pub(crate) fn check_cluster(name: &str, cluster: &Cluster, errors: &mut Vec<ConfigError>) {
    let mut check = EntryCheck { file: &cluster.origin, entry: format!("clusters[{name:?}]"), errors };
    match &cluster.server {
        None => check.fail("server", "is not given"),
        Some(server) => {
            if let Err(problem) = server_uri(server, true) {
                check.fail("server", problem);
            }
        }
    }
    if let Some(Err(problem)) = cluster.proxy_url.as_ref().map(|url| ProxyUrl::parse(url.expose())) {
        check.fail("proxy-url", problem);
    }
    check.not_both(
        ("certificate-authority", cluster.certificate_authority.is_some()),
        ("certificate-authority-data", cluster.certificate_authority_data.is_some()),
    );
    let has_authority = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    if cluster.insecure_skip_tls_verify && has_authority {
        check.fail("insecure-skip-tls-verify", "conflicts with a certificate authority");
    }
    check.readable("certificate-authority", &cluster.certificate_authority);
}

#[inline]
pub(crate) fn check_user(name: &str, user: &AuthInfo, errors: &mut Vec<ConfigError>) {
    let mut check = EntryCheck { file: &user.origin, entry: format!("users[{name:?}]"), errors };
    let has_token = user.token.is_some() || user.token_file.is_some();
    let has_basic = user.username.is_some() || user.password.is_some();
    if has_token && has_basic {
        check.fail("token", "conflicts with username and password");
    }
    let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let has_key = user.client_key.is_some() || user.client_key_data.is_some();
    // A key without a certificate is ignored, even if it is invalid.
    if has_certificate {
        if !has_key {
            check.fail("client-key", "is missing, but there is a client-certificate");
        }
        check.not_both(
            ("client-certificate", user.client_certificate.is_some()),
            ("client-certificate-data", user.client_certificate_data.is_some()),
        );
        check.not_both(("client-key", user.client_key.is_some()), ("client-key-data", user.client_key_data.is_some()));
        check.readable("client-certificate", &user.client_certificate);
        check.readable("client-key", &user.client_key);
    }
    if user.exec.is_some() && user.auth_provider.is_some() {
        check.fail("exec", "conflicts with auth-provider");
    }
    if let Some(exec) = &user.exec {
        check_exec(exec, &mut check);
    }
    let has_more = user.impersonate_uid.is_some()
        || !user.impersonate_groups.is_empty()
        || !user.impersonate_user_extra.is_empty();
    if has_more && user.impersonate.is_none() {
        check.fail("as", "is missing, but there is as-uid, as-groups or as-user-extra");
    }
}

#[inline]
fn check_exec(exec: &ExecConfig, check: &mut EntryCheck<'_>) {
    if exec.command.is_none() {
        check.fail("exec.command", "is not given");
    }
    match exec.api_version.as_deref() {
        None => check.fail("exec.apiVersion", "is not given"),
        Some(version) if is_supported(version) => {}
        Some(version) => check.fail("exec.apiVersion", format!("{version:?} is not supported; use v1 or v1beta1")),
    }
    // The older version had no such field; its default is `IfAvailable`.
    let needs_mode = exec.api_version.as_deref() != Some(EXEC_V1BETA1);
    if needs_mode && exec.interactive_mode.is_none() {
        check.fail("exec.interactiveMode", "is not given");
    }
    if exec.env.iter().any(|variable| variable.name.is_empty()) {
        check.fail("exec.env", "a variable has no name");
    }
}

/// Collects the problems of one entry.
struct EntryCheck<'a> {
    file: &'a Option<PathBuf>,
    entry: String,
    errors: &'a mut Vec<ConfigError>,
}

impl EntryCheck<'_> {
    fn fail(&mut self, field: &str, problem: impl Into<String>) {
        let (file, entry) = (self.file.clone(), self.entry.clone());
        self.errors.push(EntryError { file, entry, field: field.to_owned(), problem: problem.into() }.into());
    }

    #[inline]
    fn not_both(&mut self, one: (&str, bool), other: (&str, bool)) {
        if one.1 && other.1 {
            self.fail(one.0, format!("conflicts with {}", other.0));
        }
    }

    #[inline]
    fn readable(&mut self, field: &str, path: &Option<PathBuf>) {
        if let Some(Err(error)) = path.as_deref().map(open) {
            let path = path.as_deref().unwrap_or(Path::new(""));
            self.fail(field, format!("cannot read {}: {error}", path.display()));
        }
    }
}

#[inline]
fn open(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path).map(drop)
}
