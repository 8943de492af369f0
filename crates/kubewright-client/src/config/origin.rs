//! Where a configuration comes from, for errors that tell people where to look.

use std::path::Path;

/// The entries of a kubeconfig that a configuration was made of, as errors name them. None by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The entry that says where the server is, such as `clusters["red"] of /home/jane/.kube/config`.
    pub cluster: Option<String>,
    /// The entry that says who we are, such as `users["jane"] of /home/jane/.kube/config`.
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

/// A thing with the entry that it comes from, if that is known.
pub(crate) fn of_entry(what: impl std::fmt::Display, entry: Option<&str>) -> String {
    match entry {
        Some(entry) => format!("{what} ({entry})"),
        None => what.to_string(),
    }
}
