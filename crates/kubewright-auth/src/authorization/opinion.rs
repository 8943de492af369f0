//! The opinion of an authorization mode.

/// The opinion of one mode, with its reason. The reason may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opinion {
    /// The user may. Later modes are not asked.
    Allow(String),
    /// The user may not. Later modes are not asked.
    Deny(String),
    /// Another mode decides.
    None(String),
}
