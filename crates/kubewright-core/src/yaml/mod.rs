//! YAML as Kubernetes has it: read by the rules of version 1.1 into JSON, written in blocks with sorted keys.

mod objects;
mod read;
mod write;

use std::fmt;

pub use objects::{ManifestError, objects};
pub use read::{Document, parse, parse_all};
pub use write::write;

/// Why a text is no YAML, in Go's words where they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    message: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for YamlError {}

impl From<String> for YamlError {
    fn from(message: String) -> Self {
        YamlError { message }
    }
}

impl From<&str> for YamlError {
    fn from(message: &str) -> Self {
        YamlError { message: message.to_owned() }
    }
}
