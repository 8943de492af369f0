//! The key of an object in caches and queues: `namespace/name`.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::{error::Error, fmt, str::FromStr};

use crate::Str;
use crate::meta::v1::ObjectMeta;
use crate::names::hash;

/// Identifies an object among those of its kind; cheap to clone, hash and compare.
///
/// Prints as `namespace/name`, or as `name` for cluster-scoped objects, and parses both. Keys are
/// ordered by namespace, then name. The hash is computed on construction: queues and caches look
/// keys up repeatedly, usually when the text is no longer in the CPU cache.
///
/// ```
/// use kubewright_core::ObjectKey;
/// let key: ObjectKey = "default/web-0".parse()?;
/// assert_eq!(key, ObjectKey::namespaced("default", "web-0"));
/// assert_eq!(ObjectKey::cluster("node-1").to_string(), "node-1");
/// # Ok::<(), kubewright_core::ParseKeyError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "ObjectName")]
#[doc(alias = "NamespacedName")]
pub struct ObjectKey {
    namespace: Str,
    name: Str,
    /// The hash of both, see [`hash::key`].
    hash: u32,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        let (namespace, name) = (namespace.into(), name.into());
        ObjectKey { hash: hash::key(&namespace, &name), namespace, name }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Str>) -> Self {
        ObjectKey::namespaced(Str::new(), name)
    }

    /// The key of the object with this metadata; the name is empty if the object has none yet.
    #[doc(alias = "MetaNamespaceKeyFunc")]
    #[doc(alias = "MetaObjectToName")]
    #[inline]
    pub fn of(meta: &ObjectMeta) -> Self {
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// The namespace; empty for cluster-scoped objects.
    #[inline]
    pub fn namespace(&self) -> &Str {
        &self.namespace
    }

    /// The name; never empty in a parsed key.
    #[inline]
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The value of [`hash::key`].
    #[doc(hidden)]
    #[inline]
    pub fn hash_code(&self) -> u32 {
        self.hash
    }

    /// Whether the object is namespaced.
    #[inline]
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

impl PartialEq for ObjectKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.name == other.name && self.namespace == other.namespace
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl PartialOrd for ObjectKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.namespace, &self.name).cmp(&(&other.namespace, &other.name))
    }
}

impl fmt::Display for ObjectKey {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_namespaced() {
            f.write_str(&self.namespace)?;
            f.write_str("/")?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Debug for ObjectKey {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    /// Splits a key at its slash. A leading slash, which other programs print for cluster-scoped
    /// objects, is accepted; an empty name or a second slash is not.
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        if name.is_empty() || name.contains('/') {
            return Err(ParseKeyError { key: text.into() });
        }
        Ok(ObjectKey::namespaced(namespace, name))
    }
}

/// A text that is not the key of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseKeyError {
    key: Str,
}

impl fmt::Display for ParseKeyError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected key {:?}: expected \"namespace/name\" or \"name\"", self.key)
    }
}

impl Error for ParseKeyError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_has_one_or_two_parts() {
        // ST-1
        for (text, want) in [
            ("web", Some(("", "web"))),
            ("default/web", Some(("default", "web"))),
            ("/web", Some(("", "web"))),
            ("", None),
            ("/", None),
            ("default/", None),
            ("a/b/c", None),
            ("a//c", None),
            ("//c", None),
        ] {
            let want = want.map(|(namespace, name)| ObjectKey::namespaced(namespace, name));
            assert_eq!(text.parse::<ObjectKey>().ok(), want, "{text}");
        }
    }

    #[test]
    fn the_error_shows_the_key() {
        let error = "a/b/c".parse::<ObjectKey>().unwrap_err();
        assert_eq!(error.to_string(), r#"unexpected key "a/b/c": expected "namespace/name" or "name""#);
    }

    #[test]
    fn an_object_without_namespace_prints_without_slash() {
        // ST-1
        let meta = ObjectMeta { name: Some("node-1".into()), ..Default::default() };
        assert_eq!(ObjectKey::of(&meta).to_string(), "node-1");
    }

    #[test]
    fn keys_are_ordered_by_namespace_first() {
        let mut keys = ["b/a", "a/c", "z", "a/b"].map(|key| key.parse::<ObjectKey>().unwrap());
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["z", "a/b", "a/c", "b/a"]);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_gives_the_key_back(namespace in "[a-z0-9-]{0,20}", name in "[a-z0-9.-]{1,40}") {
            let key = ObjectKey::namespaced(namespace, name);
            prop_assert_eq!(key.to_string().parse::<ObjectKey>().unwrap(), key);
        }
    }
}
