//! The settings of exec plugins.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use kubewright_core::Value;

use crate::kubeconfig::ExecConfig;

/// An exec plugin and the conditions to run it.
#[derive(Clone)]
pub struct Exec {
    /// The program.
    pub config: ExecConfig,
    /// The cluster info, if the program requests it.
    pub cluster: Value,
    /// Timeout of a run, independent of the request's timeout. Five minutes by default, because the
    /// user may have to log in with a browser.
    pub timeout: Duration,
    /// The programs that may run. All by default.
    pub policy: ExecPolicy,
}

/// Without the cluster info: the URL of a proxy may contain a password.
impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exec { config, cluster: _, timeout, policy } = self;
        let mut shown = f.debug_struct("Exec");
        shown.field("config", config).field("timeout", timeout).field("policy", policy).finish_non_exhaustive()
    }
}

/// The programs that may run. An untrusted kubeconfig could name any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(alias = "PluginPolicy")]
pub enum ExecPolicy {
    /// All.
    #[default]
    AllowAll,
    /// None.
    DenyAll,
    /// These: a bare name is looked up in the `PATH` of this process, on both sides, and the file
    /// found there is run, whatever `PATH` the kubeconfig sets for the program.
    Allow(Vec<PathBuf>),
}

impl Exec {
    /// A plugin with this cluster info.
    pub fn new(config: ExecConfig, cluster: Value) -> Self {
        Exec { config, cluster, timeout: Duration::from_secs(300), policy: ExecPolicy::default() }
    }
}
