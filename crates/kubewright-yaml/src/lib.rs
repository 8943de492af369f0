//! Kubernetes-flavoured YAML: parsed by the rules of version 1.1 into JSON, written in block style
//! with sorted keys.
//!
//! The parser below is granit-parser. We resolve scalars ourselves, by Go's rules, which need to
//! know whether a scalar was quoted, so a parser that returns values will not do. saphyr-parser
//! emits the same events, but depends on proc macros, which this crate and the smallest programs
//! avoid.
//!
//! ```
//! use kubewright_core::Object;
//! use kubewright_yaml as yaml;
//!
//! let objects = yaml::objects("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")?;
//! assert_eq!(objects[0].name(), "team");
//! # Ok::<(), yaml::ManifestError>(())
//! ```

mod objects;
mod read;
mod scalar;
mod write;

use std::fmt;

pub use objects::{ManifestError, objects};
pub use read::{YamlDocument, parse, parse_all};
pub use write::write;

/// Why a text is not YAML, with Go's message where it is known.
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
