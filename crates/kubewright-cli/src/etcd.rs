//! Options of objects in etcd.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kubewright_apiserver::{ApiServer, EtcdOptions};
use kubewright_etcd::{ClientOptions, Encryption, Endpoint, TlsFiles};

use crate::apiserver::{about, parse_span};

/// Where and how objects are stored in etcd.
#[derive(Debug, Args)]
#[group(skip)]
pub struct EtcdArguments {
    /// Stores objects in etcd, at these URLs of its members, separated by commas.
    ///
    /// Several servers can use the same etcd. Give all of them the same --pki directory.
    #[arg(long, value_name = "URL,...", value_delimiter = ',', conflicts_with_all = ["data", "unsafe_fast"])]
    pub etcd_servers: Vec<Endpoint>,
    /// The certificate authority of etcd, in PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_cafile", "etcd_keyfile"])]
    pub etcd_certfile: Option<PathBuf>,
    /// The key of the client certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// The prefix of all keys in etcd.
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    pub etcd_prefix: String,
    /// How often old revisions of etcd are compacted; 0 leaves that to others.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_span)]
    pub etcd_compaction_interval: Duration,
    /// Encrypts values in etcd as this EncryptionConfiguration says.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub encryption_provider_config: Option<PathBuf>,
}

impl EtcdArguments {
    /// Makes a server store its objects in etcd, if there is one.
    pub fn apply(&self, server: ApiServer) -> Result<ApiServer, Box<dyn Error>> {
        if self.etcd_servers.is_empty() {
            return Ok(server);
        }
        let mut client = ClientOptions::new(self.etcd_servers.iter().cloned());
        if let Some(authority) = &self.etcd_cafile {
            let mut files = TlsFiles::new(authority);
            if let (Some(certificate), Some(key)) = (&self.etcd_certfile, &self.etcd_keyfile) {
                files = files.client_certificate(certificate, key);
            }
            client = client.tls(files);
        }
        let mut options =
            EtcdOptions::new(client).prefix(&self.etcd_prefix).compaction_interval(self.etcd_compaction_interval);
        if let Some(path) = &self.encryption_provider_config {
            let text = std::fs::read_to_string(path).map_err(|error| about(path, &error))?;
            options = options.encryption(Encryption::parse(&text).map_err(|error| about(path, &error))?);
        }
        Ok(server.etcd(options))
    }
}
