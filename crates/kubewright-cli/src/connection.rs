//! Which cluster a command talks to.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use kubewright_client::config::{Environment, InCluster, LoadingRules, Overrides};
use kubewright_client::{Client, Config};

/// Which cluster, as kubectl's flags say it.
#[derive(Debug, Args)]
pub struct Connection {
    /// The kubeconfig; by default the one that kubectl uses, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Connection {
    /// Finds the cluster. No connection is made yet.
    pub fn client(&self) -> Result<Client, Box<dyn Error>> {
        let overrides = Overrides { current_context: self.context.clone(), ..Overrides::default() };
        let config = match &self.kubeconfig {
            Some(file) => Config::from_kubeconfig(&LoadingRules::explicit(file).load()?, &overrides)?,
            None => {
                let rules = LoadingRules::from_environment(&Environment::process());
                Config::infer_from(&rules, &overrides, &InCluster::new())?
            }
        };
        Ok(Client::try_from(config)?)
    }
}
