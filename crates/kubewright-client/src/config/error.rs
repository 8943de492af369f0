//! Why a configuration cannot be used.

use std::path::PathBuf;
use std::{fmt, io};

use kubewright_core::yaml::YamlError;

/// Why a configuration could not be read, is not usable, or could not be written. Never contains a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{} is no YAML", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong, and in which line.
        source: YamlError,
    },
    /// An entry has a field that makes no sense.
    #[error(transparent)]
    Entry(EntryError),
    /// Several things are wrong at once.
    #[error("{}", list(.0))]
    Several(Vec<ConfigError>),
    /// Nothing is configured: no file, no server.
    #[error("no configuration has been provided")]
    Empty,
    /// The same, with where it was looked for, outside of a cluster.
    #[error("no configuration has been provided: {}, and this is no pod of a cluster", sought(.files))]
    Nowhere {
        /// The kubeconfigs that are not there, or say nothing.
        files: Vec<PathBuf>,
    },
    /// There are contexts, but none is chosen.
    #[error("no context is chosen, by current-context or otherwise; there are {}", .contexts.join(", "))]
    NoContext {
        /// The names of those there are.
        contexts: Vec<String>,
    },
    /// A context, cluster or user that is asked for does not exist.
    #[error("there is no {kind} {name:?} in {}, {}", kubeconfig(.files), those(.known))]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names of those there are.
        known: Vec<String>,
        /// The files that were looked into; none if they have nothing, or it came from none.
        files: Vec<PathBuf>,
    },
    /// A file could not be written; it is as it was before.
    #[error("cannot write {}", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else is writing the file.
    #[error("{} is locked by another process", .file.display())]
    Locked {
        /// The file.
        file: PathBuf,
    },
    /// This process does not run in a pod, or its service account is not mounted.
    #[error("not in a cluster: {0}")]
    NotInCluster(String),
    /// Options contradict each other, or one of them has no meaning.
    #[error("invalid configuration: {0}")]
    Invalid(String),
    /// Certificates or keys are not usable.
    #[error("{what} cannot be used")]
    Tls {
        /// What cannot be used, by its file if it has one.
        what: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is wrong with one field of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The file that has the entry, if it came from one.
    pub file: Option<PathBuf>,
    /// The entry, such as `users["admin"]`; empty for the top of the file.
    pub entry: String,
    /// The field, such as `exec.command`; empty for the entry as a whole.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        let dot = if self.entry.is_empty() || self.field.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}: {}", self.entry, self.field, self.problem)
    }
}

impl std::error::Error for EntryError {}

impl ConfigError {
    /// One error of many; `None` of none.
    pub(crate) fn of_all(mut errors: Vec<ConfigError>) -> Option<ConfigError> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(ConfigError::Several(errors)),
        }
    }

    /// Whether nothing is configured, or nothing of it is chosen, so that another source may be tried.
    pub fn is_empty(&self) -> bool {
        matches!(self, ConfigError::Empty | ConfigError::Nowhere { .. } | ConfigError::NoContext { .. })
    }
}

impl From<EntryError> for ConfigError {
    fn from(error: EntryError) -> Self {
        ConfigError::Entry(error)
    }
}

fn sought(files: &[PathBuf]) -> String {
    if files.is_empty() {
        return "KUBECONFIG is not set, there is no home directory".to_owned();
    }
    format!("nothing in {}", any_of(files))
}

fn any_of(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    files.join(" or ")
}

fn kubeconfig(files: &[PathBuf]) -> String {
    if files.is_empty() { "the kubeconfig".to_owned() } else { any_of(files) }
}

fn those(known: &[String]) -> String {
    if known.is_empty() { "which has none".to_owned() } else { format!("only {}", known.join(", ")) }
}

fn list(errors: &[ConfigError]) -> String {
    let texts: Vec<String> = errors.iter().map(chain).collect();
    texts.join("; ")
}

/// An error with its causes: those of one in a list have no other way to be seen.
fn chain(error: &ConfigError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
