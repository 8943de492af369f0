//! A tracked write, and whether a cache shows it.

use std::cmp::Ordering;

use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};
use tokio::time::Instant;

use super::cache_limits::Coverage;

/// A tracked write.
#[derive(Debug, Clone)]
pub(crate) struct OwnWrite {
    /// The index of the relation whose cache must show it.
    pub(crate) relation: usize,
    /// The written object.
    pub(crate) object: ObjectKey,
    pub(crate) effect: ExpectedEffect,
    /// Whether the cache holds the object in its written state.
    pub(crate) kept: Coverage,
    pub(crate) at: Instant,
}

/// The expected effect in the cache.
#[derive(Debug, Clone)]
pub(crate) enum ExpectedEffect {
    /// The object at this version or later, or its later deletion.
    Version(ResourceVersion),
    /// No object of this uid.
    Gone(Str),
}

impl OwnWrite {
    /// Whether a cache at `version` with `object` under the key shows the write.
    pub(crate) fn is_in<K: Object>(&self, object: Option<&K>, version: &ResourceVersion) -> bool {
        match (&self.effect, object) {
            (ExpectedEffect::Version(written), Some(object)) => reaches(&object.resource_version().into(), written),
            // An object outside of the cache causes no event.
            (ExpectedEffect::Version(written), None) => self.kept != Coverage::Yes || reaches(version, written),
            (ExpectedEffect::Gone(uid), Some(object)) => object.uid() != &**uid,
            (ExpectedEffect::Gone(_), None) => true,
        }
    }

    /// Whether a cache at this version proves that the written object is deleted, even if it never
    /// showed the object: write and deletion may both lie between two lists.
    pub(crate) fn is_lost_in<K>(&self, object: Option<&K>, version: &ResourceVersion) -> bool {
        let ExpectedEffect::Version(written) = &self.effect else { return false };
        object.is_none()
            && self.kept == Coverage::Yes
            && matches!(version.partial_cmp(written), Some(Ordering::Greater))
    }
}

/// Whether a version is at least the other one; true if they cannot be compared.
fn reaches(have: &ResourceVersion, wanted: &ResourceVersion) -> bool {
    have.partial_cmp(wanted) != Some(Ordering::Less)
}

#[cfg(test)]
mod tests {
    use kubewright_core::{DynamicObject, GroupVersionKind};

    use super::*;

    fn object(version: &str) -> DynamicObject {
        let mut object = DynamicObject::new(&GroupVersionKind::from_static("", "v1", "Pod"), "web");
        object.set_resource_version(version);
        object.metadata.uid = Some("one".into());
        object
    }

    #[test]
    fn a_write_is_seen_at_its_version_or_later_and_unknown_versions_are_let_pass() {
        // RS-6
        let write = |effect| OwnWrite {
            relation: 0,
            object: ObjectKey::cluster("web"),
            effect,
            kept: Coverage::Yes,
            at: Instant::now(),
        };
        let written = write(ExpectedEffect::Version("10".into()));
        let object = object;
        for (object, cache, seen) in [
            (Some(object("9")), "50", false),
            (Some(object("10")), "10", true),
            (Some(object("11")), "11", true),
            (Some(object("x")), "11", true),
            (None, "9", false),
            (None, "10", true),
            (None, "", true),
        ] {
            assert_eq!(written.is_in(object.as_ref(), &cache.into()), seen, "{cache}");
        }
        // An object that no longer matches the cache's selector is seen when it leaves the cache.
        let left = OwnWrite { kept: Coverage::No, ..written };
        assert!(left.is_in::<DynamicObject>(None, &"9".into()) && !left.is_in(Some(&object("9")), &"50".into()));
        let gone = write(ExpectedEffect::Gone("one".into()));
        assert!(!gone.is_in(Some(&object("10")), &"99".into()) && gone.is_in::<DynamicObject>(None, &"1".into()));
        assert!(write(ExpectedEffect::Gone("two".into())).is_in(Some(&object("10")), &"99".into()));
    }
}
