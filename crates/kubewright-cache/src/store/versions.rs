//! The resource versions of a store.

use std::cmp::Ordering;
use std::collections::HashMap;

use kubewright_core::{ResourceVersion, Str, compare_resource_versions};

/// Up to which version a store has seen what happened.
#[derive(Default, Clone)]
pub(super) struct Versions {
    /// The version of the last change, list or bookmark.
    pub(super) last: ResourceVersion,
    /// Once namespaces are listed one by one. In a box, since most stores do without.
    apart: Option<Box<Apart>>,
}

/// Versions of namespaces that are watched one by one: what is heard of one says nothing of what
/// has been seen in others.
#[derive(Default, Clone)]
struct Apart {
    of: HashMap<Str, ResourceVersion>,
    /// The version of namespaces that have not been listed.
    none: ResourceVersion,
}

impl Versions {
    /// A change of this version has been seen.
    pub(super) fn change(&mut self, namespace: &str, version: &str) {
        if !version.is_empty() {
            self.last = version.into();
            if let Some(apart) = &mut self.apart {
                apart.set(namespace, &self.last);
            }
        }
    }

    /// All objects of a namespace have been seen; of all, if it is empty.
    pub(super) fn list(&mut self, namespace: &str, version: ResourceVersion) {
        match namespace {
            "" => self.apart = None,
            namespace => self.apart.get_or_insert_default().set(namespace, &version),
        }
        self.last = version;
    }

    /// All that happened in a namespace up to this version has been seen; in all, if it is empty.
    ///
    /// A queue may deliver a bookmark behind events that are newer. Such a bookmark changes
    /// nothing.
    pub(super) fn bookmark(&mut self, namespace: &str, version: ResourceVersion) {
        let is_older = |than: &ResourceVersion| {
            compare_resource_versions(version.as_str(), than.as_str()).is_some_and(Ordering::is_lt)
        };
        if !namespace.is_empty() {
            let apart = self.apart.get_or_insert_default();
            if !apart.of.get(namespace).is_some_and(is_older) {
                apart.set(namespace, &version);
            }
        }
        if !is_older(&self.last) {
            self.last = version;
        }
    }

    /// Up to where all that happened in a namespace has been seen.
    pub(super) fn of(&self, namespace: &str) -> &ResourceVersion {
        match &self.apart {
            Some(apart) => apart.of.get(namespace).unwrap_or(&apart.none),
            None => &self.last,
        }
    }
}

impl Apart {
    fn set(&mut self, namespace: &str, version: &ResourceVersion) {
        match self.of.get_mut(namespace) {
            Some(reached) => reached.clone_from(version),
            None => drop(self.of.insert(namespace.into(), version.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(versions: &'a Versions, namespaces: [&str; 2]) -> [&'a str; 2] {
        namespaces.map(|namespace| versions.of(namespace).as_str())
    }

    #[test]
    fn what_is_heard_of_one_namespace_says_nothing_of_others_that_are_listed_on_their_own() {
        let mut versions = Versions::default();
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
    fn of_all_namespaces_together_there_is_one_version() {
        let mut versions = Versions::default();
        versions.list("", "5".into());
        versions.change("a", "7");
        assert_eq!(of(&versions, ["a", "b"]), ["7", "7"]);
        versions.bookmark("", "9".into());
        assert_eq!(of(&versions, ["a", "b"]), ["9", "9"]);
    }

    #[test]
    fn a_bookmark_behind_newer_events_changes_nothing() {
        let mut versions = Versions::default();
        versions.change("a", "12");
        versions.bookmark("", "10".into());
        assert_eq!(versions.last.as_str(), "12");
        versions.list("a", "20".into());
        versions.change("a", "25");
        versions.bookmark("a", "22".into());
        assert_eq!((of(&versions, ["a", "b"]), versions.last.as_str()), (["25", ""], "25"));
    }
}
