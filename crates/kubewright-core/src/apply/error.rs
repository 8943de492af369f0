//! Why a configuration was not applied.

use std::{error::Error, fmt};

/// A field that another manager holds at another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who holds the field, as messages say it: `"name" with subresource "status" using v1`.
    pub manager: String,
    /// The way to the field, such as `.spec.replicas`.
    pub field: String,
}

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others hold fields at other values; applying by force takes these over.
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the type: one message for each place.
    Unfit(Vec<String>),
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
            ApplyError::Unfit(messages) => match &messages[..] {
                [message] => f.write_str(message),
                all => write!(f, "errors:\n  {}", all.join("\n  ")),
            },
        }
    }
}

impl Error for ApplyError {}
