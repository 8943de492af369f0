//! Reduces kubeconfigs: to one context, without files, without secrets.

use std::path::PathBuf;

use kubewright_core::ByteString;

use super::document::Kubeconfig;
use crate::error::{ConfigError, EntryError};
use crate::secret::Secret;

impl Kubeconfig {
    /// Keeps only the current context, its cluster and its user.
    ///
    /// # Errors
    /// If there is no current context, or it is dangling.
    #[doc(alias = "MinifyConfig")]
    #[inline]
    pub fn minify(&mut self) -> Result<(), ConfigError> {
        let name = self.current_context.clone().ok_or(ConfigError::Empty)?;
        let context = self.contexts.get(&name).cloned().ok_or_else(|| self.missing("context", &name))?;
        let cluster = match &context.cluster {
            Some(name) if !self.clusters.contains_key(name) => {
                return Err(self.missing("cluster", name));
            }
            name => name.clone(),
        };
        let user = match &context.user {
            Some(name) if !self.users.contains_key(name) => {
                return Err(self.missing("user", name));
            }
            name => name.clone(),
        };
        self.clusters.retain(|name, _| Some(name) == cluster.as_ref());
        self.users.retain(|name, _| Some(name) == user.as_ref());
        self.contexts.clear();
        self.contexts.insert(name, context);
        Ok(())
    }

    /// Inlines the certificates and keys of files, so that the kubeconfig is self-contained. Token
    /// files stay.
    ///
    /// # Errors
    /// If a file cannot be read, or an entry has both a file and data.
    #[doc(alias = "FlattenConfig")]
    #[inline]
    pub fn flatten(&mut self) -> Result<(), ConfigError> {
        for (name, cluster) in &mut self.clusters {
            let place = ErrorLocation { origin: cluster.origin.clone(), entry: format!("clusters[{name:?}]") };
            let (file, data) = (&mut cluster.certificate_authority, &mut cluster.certificate_authority_data);
            place.take_in("certificate-authority", file, data)?;
        }
        for (name, user) in &mut self.users {
            let place = ErrorLocation { origin: user.origin.clone(), entry: format!("users[{name:?}]") };
            place.take_in("client-certificate", &mut user.client_certificate, &mut user.client_certificate_data)?;
            let mut key = user.client_key_data.take().map(|key| key.expose().clone());
            place.take_in("client-key", &mut user.client_key, &mut key)?;
            user.client_key_data = key.map(Secret::new);
        }
        Ok(())
    }

    /// Replaces secrets and long data with placeholders, so that the kubeconfig can be printed.
    #[doc(alias = "RedactSecrets")]
    #[inline]
    pub fn redact(&mut self) {
        // The base64 decoding of `DATA+OMITTED`, so that it is readable when written.
        let omitted = || ByteString::from_base64(b"DATA+OMITTED").unwrap_or_default();
        let redacted = || Secret::from("REDACTED");
        for cluster in self.clusters.values_mut() {
            if let Some(data) = &mut cluster.certificate_authority_data {
                *data = omitted();
            }
            cluster.proxy_url = cluster.proxy_url.take().map(|url| Secret::new(without_user(url.expose())));
        }
        for user in self.users.values_mut() {
            user.client_certificate_data = user.client_certificate_data.take().map(|_| omitted());
            user.client_key_data = user.client_key_data.take().map(|_| Secret::new(omitted()));
            user.token = user.token.take().map(|_| redacted());
            user.password = user.password.take().map(|_| redacted());
            if let Some(provider) = &mut user.auth_provider {
                provider.config.values_mut().for_each(|value| *value = redacted());
            }
            if let Some(exec) = &mut user.exec {
                exec.env.iter_mut().for_each(|variable| variable.value = redacted());
                exec.args = Secret::new(exec.args.expose().iter().map(|_| "REDACTED".to_owned()).collect());
            }
        }
    }
}

/// A URL with a placeholder for user and password, if it has them.
#[inline]
fn without_user(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}REDACTED@{host}")
}

/// The location of an error.
struct ErrorLocation {
    origin: Option<PathBuf>,
    entry: String,
}

impl ErrorLocation {
    #[inline]
    fn take_in(
        &self,
        field: &str,
        file: &mut Option<PathBuf>,
        data: &mut Option<ByteString>,
    ) -> Result<(), ConfigError> {
        let Some(path) = file.as_ref() else { return Ok(()) };
        let fail = |problem: String| {
            let (file, entry) = (self.origin.clone(), self.entry.clone());
            ConfigError::from(EntryError { file, entry, field: field.to_owned(), problem })
        };
        if data.is_some() {
            return Err(fail(format!("conflicts with {field}-data")));
        }
        let bytes = std::fs::read(path).map_err(|error| fail(format!("cannot read {}: {error}", path.display())))?;
        *data = Some(ByteString::from(bytes));
        *file = None;
        Ok(())
    }
}
