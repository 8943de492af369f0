//! The resource versions of a store.

use std::cmp::Ordering;
use std::collections::HashMap;

use kubewright_core::{ResourceVersion, Str, compare_resource_versions};

/// The resource versions that a store has reached.
#[derive(Default, Clone)]
pub(super) struct StoreVersions {
    /// The version of the last change, list or bookmark.
    pub(super) last: ResourceVersion,
    /// Set once namespaces are listed separately. Boxed, because it is rarely used.
    namespaces: Option<Box<NamespaceVersions>>,
    /// The empty version, of namespaces that have not been listed.
    none: ResourceVersion,
}

/// Versions of namespaces that are watched separately. An event of one namespace does not advance
/// the versions of others.
type NamespaceVersions = HashMap<Str, ResourceVersion>;

impl StoreVersions {
    /// Records a change.
    pub(super) fn change(&mut self, namespace: &str, version: &str) {
        if !version.is_empty() {
            self.last = version.into();
            if let Some(namespaces) = &mut self.namespaces {
                namespaces.insert(namespace.into(), self.last.clone());
            }
        }
    }

    /// Records a complete list of a namespace, or of all namespaces if it is empty.
    pub(super) fn list(&mut self, namespace: &str, version: ResourceVersion) {
        match namespace {
            "" => self.namespaces = None,
            namespace => drop(self.namespaces.get_or_insert_default().insert(namespace.into(), version.clone())),
        }
        self.last = version;
    }

    /// Records a bookmark of a namespace, or of all namespaces if it is empty.
    ///
    /// A queue may deliver a bookmark after newer events. Such a bookmark is ignored.
    pub(super) fn bookmark(&mut self, namespace: &str, version: ResourceVersion) {
        let is_older = |than: &ResourceVersion| {
            compare_resource_versions(version.as_str(), than.as_str()).is_some_and(Ordering::is_lt)
        };
        if !namespace.is_empty() {
            let namespaces = self.namespaces.get_or_insert_default();
            if !namespaces.get(namespace).is_some_and(is_older) {
                namespaces.insert(namespace.into(), version.clone());
            }
        }
        if !is_older(&self.last) {
            self.last = version;
        }
    }

    /// The version up to which all changes of a namespace are known.
    pub(super) fn of(&self, namespace: &str) -> &ResourceVersion {
        match &self.namespaces {
            Some(namespaces) => namespaces.get(namespace).unwrap_or(&self.none),
            None => &self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(versions: &'a StoreVersions, namespaces: [&str; 2]) -> [&'a str; 2] {
        namespaces.map(|namespace| versions.of(namespace).as_str())
    }

    #[test]
    fn an_event_of_one_namespace_does_not_advance_the_versions_of_others() {
        let mut versions = StoreVersions::default();
        versions.list("a", "5".into());
        versions.list("b", "6".into());
        versions.change("a", "7");
        versions.change("a", "");
        assert_eq!(of(&versions, ["a", "b"]), ["7", "6"]);
        versions.bookmark("b", "9".into());
        assert_eq!((of(&versions, ["a", "b"]), versions.last.as_str()), (["7", "9"], "9"));
        versions.list("a", "8".into());
        assert_eq!((of(&versions, ["a", "c"]), versions.last.as_str()), (["8", ""], "8"));
    }

    #[test]
    fn namespaces_that_are_watched_together_have_one_version() {
        let mut versions = StoreVersions::default();
        versions.list("", "5".into());
        versions.change("a", "7");
        assert_eq!(of(&versions, ["a", "b"]), ["7", "7"]);
        versions.bookmark("", "9".into());
        assert_eq!(of(&versions, ["a", "b"]), ["9", "9"]);
    }

    #[test]
    fn a_bookmark_after_newer_events_is_ignored() {
        let mut versions = StoreVersions::default();
        versions.change("a", "12");
        versions.bookmark("", "10".into());
        assert_eq!(versions.last.as_str(), "12");
        versions.list("a", "20".into());
        versions.change("a", "25");
        versions.bookmark("a", "22".into());
        assert_eq!((of(&versions, ["a", "b"]), versions.last.as_str()), (["25", ""], "25"));
    }
}
