//! Why exec plugins fail.

use std::sync::Arc;
use std::time::Duration;

/// Why a program returned no credentials. Contains nothing of its output.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The program does not exist.
    #[error("exec plugin {command:?} not found{}", hint(.install_hint))]
    NotFound {
        /// Its name.
        command: String,
        /// The installation instructions of the kubeconfig, without control characters.
        install_hint: Option<String>,
    },
    /// The program could not be started.
    #[error("exec plugin {command:?} did not start")]
    Start {
        /// Its name.
        command: String,
        /// The cause. Shared, because all waiting callers receive it.
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
    /// The program timed out and was killed.
    #[error("exec plugin {command:?} did not finish within {limit:?}")]
    Timeout {
        /// Its name.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// The program needs a terminal, and there is none.
    #[error("exec plugin {command:?} needs a terminal, and standard input is none")]
    NoTerminal {
        /// Its name.
        command: String,
    },
    /// The policy forbids the program.
    #[error("exec plugin {command:?} is not allowed by the policy")]
    Denied {
        /// Its name.
        command: String,
    },
    /// The output is not a credential.
    #[error("exec plugin {command:?} printed no usable credentials: {problem}")]
    Output {
        /// Its name.
        command: String,
        /// The problem.
        problem: String,
    },
}

fn hint(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default()
}
