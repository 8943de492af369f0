//! Runs an exec plugin when its last credential has expired.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::credential::ExecCredential;
use super::error::ExecError;
use super::run;
use crate::authentication::renewal::Renewal;
use crate::credentials::{Exec, Identity};
use crate::error::ConfigError;
use crate::kubeconfig::is_supported;
use crate::observer::{ExecOutcome, TransportObserver};

/// A plugin and its last output. At most one run at a time; concurrent callers wait for its result.
pub(crate) struct ExecPlugin {
    program: Arc<PluginCommand>,
    /// Held while the program runs.
    current: Arc<Mutex<Option<ExecCredential>>>,
    renewal: Renewal<Result<ExecCredential, ExecError>>,
}

/// The inputs of a run.
struct PluginCommand {
    exec: Exec,
    observer: Option<TransportObserver>,
}

impl ExecPlugin {
    pub(crate) fn new(exec: Exec, observer: Option<TransportObserver>) -> Result<Self, ConfigError> {
        let refuse = |problem: &str| Err(ConfigError::Invalid(format!("exec plugin: {problem}")));
        if exec.config.command.is_none() {
            return refuse("no command is given");
        }
        if !exec.config.api_version.as_deref().is_some_and(is_supported) {
            return refuse("the version of the exchange is neither v1 nor v1beta1");
        }
        let program = Arc::new(PluginCommand { exec, observer });
        Ok(ExecPlugin { program, current: Arc::default(), renewal: Renewal::default() })
    }

    /// The current credential; runs the program again if it has expired.
    pub(crate) async fn credential(&self) -> Result<ExecCredential, ExecError> {
        let before = self.renewal.count();
        let current = Arc::clone(&self.current).lock_owned().await;
        if let Some(credential) = current.as_ref().filter(|credential| !credential.is_expired()) {
            return Ok(credential.clone());
        }
        match self.renewal.since(before) {
            Some(result) => result,
            None => self.run(current).await,
        }
    }

    /// Runs the program after a 401, unless it has run since. Returns whether the credential
    /// changed.
    pub(crate) async fn refresh(&self, token: Option<&str>, identity: Option<&Arc<Identity>>) -> bool {
        let before = self.renewal.count();
        let current = Arc::clone(&self.current).lock_owned().await;
        if current.as_ref().is_some_and(|credential| credential.differs(token, identity)) {
            return true;
        }
        let result = match self.renewal.since(before) {
            Some(result) => result,
            None => self.run(current).await,
        };
        match result {
            Ok(credential) => credential.differs(token, identity),
            Err(error) => {
                tracing::warn!(%error, "the server refused the credentials and no others could be had");
                false
            }
        }
    }

    /// Runs the program. It continues if the caller is dropped: the user may be logging in, and the
    /// next caller uses the result.
    async fn run(&self, mut current: OwnedMutexGuard<Option<ExecCredential>>) -> Result<ExecCredential, ExecError> {
        let program = Arc::clone(&self.program);
        // Boxed, to keep the futures of ordinary requests small.
        let work = Box::pin(async move {
            let printed = program.run().await;
            if let Ok(credential) = &printed {
                program.replace(&mut current, credential.clone());
            }
            (printed, current)
        });
        self.renewal.run(work).await.unwrap_or_else(|| {
            let command = self.program.exec.config.command.clone().unwrap_or_default();
            Err(ExecError::Start { command, source: std::io::Error::other("the task was aborted").into() })
        })
    }
}

impl PluginCommand {
    async fn run(&self) -> Result<ExecCredential, ExecError> {
        let ended = run::run(&self.exec).await;
        if let Some(observer) = &self.observer {
            observer.exec_plugin_called(match &ended {
                Ok(_) => ExecOutcome::Done,
                Err(ExecError::NotFound { .. }) => ExecOutcome::NotFound,
                Err(ExecError::Failed { code, .. }) => ExecOutcome::Failed { code: *code },
                Err(ExecError::Timeout { .. } | ExecError::Start { .. }) => ExecOutcome::Failed { code: None },
                Err(_) => ExecOutcome::Internal,
            });
        }
        ended
    }

    /// Stores a new credential and notifies the observer.
    fn replace(&self, current: &mut Option<ExecCredential>, credential: ExecCredential) {
        if let Some(observer) = &self.observer {
            observer.exec_plugin_expiry(credential.expires.map(|expiry| expiry.by_clock));
            if let Some(before) = current.as_ref().filter(|before| before.identity.is_some())
                && before.identity != credential.identity
            {
                observer.certificate_rotated(before.since.elapsed());
            }
        }
        *current = Some(credential);
    }
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin").field("exec", &self.program.exec).finish_non_exhaustive()
    }
}
