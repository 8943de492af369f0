//! The cluster of a command.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_client::config::{CertificateSource, EnvironmentVariables, InCluster, LoadingRules, Overrides};
use kubewright_client::rest::{Warning, deduplicate_warnings};
use kubewright_client::{Client, Config};
use kubewright_core::Value;

/// The cluster, with kubectl's flags.
#[derive(Debug, Args)]
pub struct Connection {
    /// The kubeconfig; by default the one that kubectl uses, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Connection {
    /// Whether a flag names the cluster.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// A client of the cluster, which prints the server's warnings. Does not connect yet.
    pub fn client(&self) -> Result<Client, Box<dyn Error>> {
        Ok(Client::try_from(self.config()?)?.on_warning(deduplicate_warnings(print_warning)))
    }

    /// The certificate authorities of the server in PEM, if the cluster entry names them.
    pub fn authorities(&self) -> Result<Option<String>, Box<dyn Error>> {
        let pem = match self.config()?.tls.authority {
            Some(CertificateSource::File(file)) => {
                let unread = |error| format!("cannot read the certificate authority {}: {error}", file.display());
                std::fs::read(&file).map_err(unread)?
            }
            Some(CertificateSource::Data(pem)) => pem.to_vec(),
            None => return Ok(None),
        };
        Ok(Some(String::from_utf8(pem)?))
    }

    /// The value of `KUBECONFIG` for a program that is to use this cluster. A chosen context is
    /// written to `file`, which precedes the others; it has no credentials.
    pub fn variable(&self, file: &Path) -> Result<OsString, Box<dyn Error>> {
        let rules = LoadingRules::from_environment(&EnvironmentVariables::process());
        let mut paths: Vec<PathBuf> = match &self.kubeconfig {
            Some(kubeconfig) => vec![kubeconfig.canonicalize()?],
            None => rules.files().into_iter().map(Path::to_owned).collect(),
        };
        if let Some(context) = &self.context {
            let name = Value::from(context.as_str());
            std::fs::write(file, format!("apiVersion: v1\nkind: Config\ncurrent-context: {name}\n"))?;
            paths.insert(0, file.to_owned());
        }
        Ok(std::env::join_paths(paths)?)
    }

    fn config(&self) -> Result<Config, Box<dyn Error>> {
        let overrides = Overrides { current_context: self.context.clone(), ..Overrides::default() };
        Ok(match &self.kubeconfig {
            Some(file) => Config::from_kubeconfig(&LoadingRules::explicit(file).load()?, &overrides)?,
            None => {
                let rules = LoadingRules::from_environment(&EnvironmentVariables::process());
                Config::infer_from(&rules, &overrides, &InCluster::new())?
            }
        })
    }
}

/// Prints a warning on standard error, as kubectl does.
#[allow(clippy::print_stderr)]
fn print_warning(warning: &Warning) {
    eprintln!("Warning: {warning}");
}
