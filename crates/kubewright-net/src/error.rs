//! Configuration errors.

use std::path::PathBuf;
use std::{fmt, io};

use kubewright_yaml::YamlError;

/// Why a configuration could not be read, used or written. Never contains a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{} is not YAML", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The error with its line.
        source: YamlError,
    },
    /// An entry has an invalid field.
    #[error(transparent)]
    Entry(EntryError),
    /// Several errors.
    #[error("{}", list(.0))]
    Several(Vec<ConfigError>),
    /// No file and no server is configured.
    #[error("no configuration has been provided")]
    Empty,
    /// Nothing is configured, with the searched files, outside of a cluster.
    #[error("no configuration has been provided: {}, and this process does not run in a pod", sought(.files))]
    Nowhere {
        /// The kubeconfigs that are missing or empty.
        files: Vec<PathBuf>,
    },
    /// There are contexts, but none is selected.
    #[error("no context is selected; available: {}", .contexts.join(", "))]
    NoContext {
        /// The names of existing ones.
        contexts: Vec<String>,
    },
    /// A requested context, cluster or user does not exist.
    #[error("there is no {kind} {name:?} in {}, {}", kubeconfig(.files), those(.known))]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names of existing ones.
        known: Vec<String>,
        /// The searched files; empty if they are empty, or the configuration is not from a file.
        files: Vec<PathBuf>,
    },
    /// A file could not be written; it is unchanged.
    #[error("cannot write {}", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process is writing the file.
    #[error("{} is locked by another process", .file.display())]
    Locked {
        /// The file.
        file: PathBuf,
    },
    /// This process does not run in a pod, or its service account is not mounted.
    #[error("not in a cluster: {0}")]
    NotInCluster(String),
    /// Options are contradictory or invalid.
    #[error("invalid configuration: {0}")]
    Invalid(String),
    /// Certificates or keys are unusable.
    #[error("{what} cannot be used")]
    Tls {
        /// The unusable item, by its file if it has one.
        what: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An invalid field of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The file with the entry, if any.
    pub file: Option<PathBuf>,
    /// The entry, such as `users["admin"]`; empty for the top level.
    pub entry: String,
    /// The field, such as `exec.command`; empty for the whole entry.
    pub field: String,
    /// The problem.
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
    /// Combines errors; `None` if there are none.
    pub(crate) fn of_all(mut errors: Vec<ConfigError>) -> Option<ConfigError> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(ConfigError::Several(errors)),
        }
    }

    /// Whether nothing is configured or selected, so that another source may be tried.
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

/// An error with its causes, which a list of errors would otherwise hide.
fn chain(error: &ConfigError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A description with its entry, if that is known.
pub(crate) fn of_entry(what: impl std::fmt::Display, entry: Option<&str>) -> String {
    match entry {
        Some(entry) => format!("{what} ({entry})"),
        None => what.to_string(),
    }
}
