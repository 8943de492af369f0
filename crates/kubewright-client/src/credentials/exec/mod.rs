//! A program that prints credentials, run when they are needed.

mod exchange;
mod run;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubewright_core::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::Identity;
use super::renewal::Renewal;
use crate::config::{ConfigError, ExecConfig};
use crate::secret::Secret;
use crate::transport::{ExecOutcome, TransportObserver};

/// The present version of the exchange.
pub(crate) const V1: &str = "client.authentication.k8s.io/v1";
/// The one before it.
pub(crate) const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// Whether a version of the exchange is known.
pub(crate) fn is_supported(version: &str) -> bool {
    version == V1 || version == V1BETA1
}

/// A program that prints credentials, and under which conditions it is run.
#[derive(Clone)]
pub struct Exec {
    /// The program.
    pub config: ExecConfig,
    /// What it is told about the cluster, if it wants to know.
    pub cluster: Value,
    /// How long it may take, whatever limit the request has that needs it. Five minutes by default, because somebody may have
    /// to log in with a browser.
    pub timeout: Duration,
    /// Which programs may be run. All by default.
    pub policy: ExecPolicy,
}

/// Without what it is told about the cluster: the address of a proxy may have a password in it.
impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exec { config, cluster: _, timeout, policy } = self;
        let mut shown = f.debug_struct("Exec");
        shown.field("config", config).field("timeout", timeout).field("policy", policy).finish_non_exhaustive()
    }
}

/// Which programs may be run. A kubeconfig from a stranger could name any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(alias = "PluginPolicy")]
pub enum ExecPolicy {
    /// All.
    #[default]
    AllowAll,
    /// None.
    DenyAll,
    /// These: a bare name is looked up in the `PATH` of this process, on both sides, and what was found there is run, whatever
    /// `PATH` the kubeconfig sets for the program.
    Allow(Vec<PathBuf>),
}

impl Exec {
    /// A program, told this about its cluster.
    pub fn new(config: ExecConfig, cluster: Value) -> Self {
        Exec { config, cluster, timeout: Duration::from_secs(300), policy: ExecPolicy::default() }
    }
}

/// Why a program gave no credentials. Contains nothing of what it printed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The program is not there.
    #[error("exec plugin {command:?} not found{}", hint(.install_hint))]
    NotFound {
        /// Its name.
        command: String,
        /// What the kubeconfig says about how to get it, without control characters.
        install_hint: Option<String>,
    },
    /// The program could not be started.
    #[error("exec plugin {command:?} did not start")]
    Start {
        /// Its name.
        command: String,
        /// Why not. Shared, because all who waited for the run are told.
        source: Arc<std::io::Error>,
    },
    /// The program failed.
    #[error("exec plugin {command:?} failed with {status}")]
    Failed {
        /// Its name.
        command: String,
        /// Its exit status.
        status: String,
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// The program took too long and was ended.
    #[error("exec plugin {command:?} did not finish within {limit:?}")]
    Timeout {
        /// Its name.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// The program needs a person, and there is none.
    #[error("exec plugin {command:?} needs a terminal, and standard input is none")]
    NoTerminal {
        /// Its name.
        command: String,
    },
    /// The program may not be run.
    #[error("exec plugin {command:?} is not allowed by the policy")]
    Denied {
        /// Its name.
        command: String,
    },
    /// The program printed something else than credentials.
    #[error("exec plugin {command:?} printed no usable credentials: {problem}")]
    Output {
        /// Its name.
        command: String,
        /// What is wrong with it.
        problem: String,
    },
}

fn hint(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default()
}

/// What a program has printed.
#[derive(Clone)]
pub(crate) struct ExecCredential {
    pub(crate) token: Option<Secret<String>>,
    pub(crate) identity: Option<Arc<Identity>>,
    /// When it is of no more use; `None` until the server refuses it.
    expires: Option<Expiry>,
    /// When it was printed.
    since: Instant,
}

/// A moment by two clocks, whichever comes to it first: ours stands still while the machine sleeps, and that of the calendar may be set.
#[derive(Debug, Clone, Copy)]
struct Expiry {
    by_clock: Instant,
    by_calendar: SystemTime,
}

impl Expiry {
    fn has_come(&self) -> bool {
        self.by_clock <= Instant::now() || self.by_calendar <= SystemTime::now()
    }
}

/// A program and what it has printed last. One run at a time, whose result all wait for.
pub(crate) struct ExecPlugin {
    program: Arc<Program>,
    /// Held by whoever runs the program.
    current: Arc<Mutex<Option<ExecCredential>>>,
    renewal: Renewal<Result<ExecCredential, ExecError>>,
}

/// What a run needs.
struct Program {
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
        let program = Arc::new(Program { exec, observer });
        Ok(ExecPlugin { program, current: Arc::default(), renewal: Renewal::default() })
    }

    /// What the program has printed, run again if that has expired.
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

    /// Runs the program after a refusal, unless somebody has done so meanwhile. Whether its word is another now.
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

    /// Runs the program. If the caller gives up, it goes on: somebody may be logging in, and the next caller takes what it prints.
    async fn run(&self, mut current: OwnedMutexGuard<Option<ExecCredential>>) -> Result<ExecCredential, ExecError> {
        let program = Arc::clone(&self.program);
        // Boxed, so that what few need is no part of each request.
        let work = Box::pin(async move {
            let printed = program.run().await;
            if let Ok(credential) = &printed {
                program.replace(&mut current, credential.clone());
            }
            (printed, current)
        });
        self.renewal.run(work).await.unwrap_or_else(|| {
            let command = self.program.exec.config.command.clone().unwrap_or_default();
            Err(ExecError::Start { command, source: std::io::Error::other("its task was broken off").into() })
        })
    }
}

impl Program {
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

    /// Keeps what the program has printed now, and tells of it.
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

impl ExecCredential {
    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expiry| expiry.has_come())
    }

    fn differs(&self, token: Option<&str>, identity: Option<&Arc<Identity>>) -> bool {
        self.token.as_ref().map(|token| token.expose().as_str()) != token || self.identity.as_ref() != identity
    }
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin").field("exec", &self.program.exec).finish_non_exhaustive()
    }
}
