//! The origin of a configuration, for error messages.

use std::path::Path;

/// The kubeconfig entries of a configuration, for error messages. None by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The cluster entry, such as `clusters["red"] of /home/jane/.kube/config`.
    pub cluster: Option<String>,
    /// The user entry, such as `users["jane"] of /home/jane/.kube/config`.
    pub user: Option<String>,
}

/// An entry and its file.
pub(super) fn entry(plural: &str, name: Option<&str>, file: Option<&Path>) -> Option<String> {
    let entry = format!("{plural}[{:?}]", name?);
    Some(match file {
        Some(file) => format!("{entry} of {}", file.display()),
        None => entry,
    })
}
