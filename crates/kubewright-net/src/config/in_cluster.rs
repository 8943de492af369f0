//! In-cluster configuration from the pod's service account.

use std::path::{Path, PathBuf};

use super::client_config::Config;
use crate::credentials::CertificateSource;
use crate::environment::EnvironmentVariables;
use crate::error::ConfigError;

/// Where the kubelet mounts the service account.
const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The in-cluster environment of a pod.
#[derive(Debug, Clone)]
#[doc(alias = "InClusterConfig")]
pub struct InCluster {
    environment: EnvironmentVariables,
    directory: PathBuf,
}

impl InCluster {
    /// The pod of this process.
    pub fn new() -> Self {
        InCluster::at(EnvironmentVariables::process(), DIRECTORY)
    }

    /// A pod with these variables and a service account mounted at `directory`.
    pub fn at(environment: EnvironmentVariables, directory: impl Into<PathBuf>) -> Self {
        InCluster { environment, directory: directory.into() }
    }

    /// Whether this process seems to run in a pod: the variables are set and the token exists.
    pub fn is_possible(&self) -> bool {
        self.server().is_some() && self.file("token").is_file()
    }

    /// The configuration. Token and certificate authorities are files that are reloaded when they
    /// change.
    ///
    /// # Errors
    /// If this is not a pod, or its token or certificate authorities cannot be read. There is no
    /// fallback for the authorities, because the server's identity could not be verified.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let not_set = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
        let server = self.server().ok_or_else(|| ConfigError::NotInCluster(not_set.to_owned()))?;
        let (token, authority) = (self.file("token"), self.file("ca.crt"));
        for file in [&token, &authority] {
            std::fs::File::open(file).map_err(|source| ConfigError::Read { file: file.clone(), source })?;
        }
        let mut config = Config::new(&server)?;
        config.tls.authority = Some(CertificateSource::File(authority));
        config.credentials.token_file = Some(token);
        config.default_namespace = self.namespace().unwrap_or_else(|| "default".to_owned());
        Ok(config)
    }

    /// The namespace of the pod: `POD_NAMESPACE`, or that of the service account.
    pub fn namespace(&self) -> Option<String> {
        self.environment.get("POD_NAMESPACE").or_else(|| {
            let text = std::fs::read_to_string(self.file("namespace")).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        })
    }

    fn server(&self) -> Option<String> {
        let host = self.environment.get("KUBERNETES_SERVICE_HOST")?;
        let port = self.environment.get("KUBERNETES_SERVICE_PORT")?;
        let is_ipv6 = host.contains(':') && !host.starts_with('[');
        Some(if is_ipv6 { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") })
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.directory).join(name)
    }
}

impl Default for InCluster {
    fn default() -> Self {
        InCluster::new()
    }
}
