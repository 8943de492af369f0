//! Errors of server-side apply.

use std::{error::Error, fmt};

/// A field that another manager owns with a different value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner of the field, as in messages: `"name" with subresource "status" using v1`.
    pub manager: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields with different values; a forced apply takes them over.
    Conflicts(Vec<Conflict>),
    /// The configuration violates the schema: one message per path.
    SchemaViolation(Vec<String>),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Conflicts(conflicts) => match &conflicts[..] {
                [Conflict { manager, field }] => {
                    write!(f, "Apply failed with 1 conflict: conflict with {manager}: {field}")
                }
                all => {
                    write!(f, "Apply failed with {} conflicts: ", all.len())?;
                    let mut before: Option<&str> = None;
                    for Conflict { manager, field } in all {
                        if before != Some(manager) {
                            let line = if before.is_some() { "\n" } else { "" };
                            write!(f, "{line}conflicts with {manager}:")?;
                            before = Some(manager);
                        }
                        write!(f, "\n- {field}")?;
                    }
                    Ok(())
                }
            },
            ApplyError::SchemaViolation(messages) => match &messages[..] {
                [message] => f.write_str(message),
                all => write!(f, "errors:\n  {}", all.join("\n  ")),
            },
        }
    }
}

impl Error for ApplyError {}
