//! Resource versions and their order.

use std::cmp::Ordering;
use std::{convert::Infallible, fmt, str::FromStr};

use crate::Str;

/// Compares the versions of two objects of one resource.
///
/// Versions that are positive integers, of any length and without leading zeros, are ordered;
/// KEP-5504 requires servers to send only such. Others can only be compared for equality.
///
/// ```
/// use kubewright_core::compare_resource_versions;
/// assert!(compare_resource_versions("9", "10").is_some_and(|order| order.is_lt()));
/// assert_eq!(compare_resource_versions("v9", "v10"), None);
/// ```
#[doc(alias = "CompareResourceVersion")]
#[inline]
pub fn compare_resource_versions(first: &str, second: &str) -> Option<Ordering> {
    if first == second {
        return Some(Ordering::Equal);
    }
    (is_ordered(first) && is_ordered(second)).then(|| first.len().cmp(&second.len()).then_with(|| first.cmp(second)))
}

/// Whether a version is a positive integer. `0` means any version in a list request, so it is not
/// ordered.
#[inline]
fn is_ordered(version: &str) -> bool {
    !version.is_empty() && !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// The version of an object or list, ordered by [`compare_resource_versions`].
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Str);

impl ResourceVersion {
    /// The text; empty if no version is set.
    #[inline]
    pub const fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether no version is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this version is ordered, that is, a positive integer.
    #[inline]
    pub fn is_ordered(&self) -> bool {
        is_ordered(&self.0)
    }
}

impl PartialOrd for ResourceVersion {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        compare_resource_versions(&self.0, &other.0)
    }
}

impl PartialEq<str> for ResourceVersion {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for ResourceVersion {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.0 == **other
    }
}

impl AsRef<str> for ResourceVersion {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for ResourceVersion {
    #[inline]
    fn from(text: &str) -> Self {
        ResourceVersion(text.into())
    }
}

impl From<String> for ResourceVersion {
    #[inline]
    fn from(text: String) -> Self {
        ResourceVersion(text.into())
    }
}

impl From<Str> for ResourceVersion {
    #[inline]
    fn from(text: Str) -> Self {
        ResourceVersion(text)
    }
}

impl From<ResourceVersion> for Str {
    #[inline]
    fn from(version: ResourceVersion) -> Self {
        version.0
    }
}

impl FromStr for ResourceVersion {
    type Err = Infallible;
    #[inline]
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl fmt::Display for ResourceVersion {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ResourceVersion {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceVersion({})", self.0)
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for ResourceVersion {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for ResourceVersion {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Str::deserialize(deserializer).map(ResourceVersion)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_are_ordered_and_all_else_is_only_the_same_or_not() {
        use Ordering::{Equal, Greater, Less};
        for (first, second, order) in [
            ("1", "2", Some(Less)),
            ("10", "9", Some(Greater)),
            ("7", "7", Some(Equal)),
            ("99999999999999999999999999", "100000000000000000000000000", Some(Less)),
            ("0", "1", None),
            ("0", "0", Some(Equal)),
            ("01", "1", None),
            ("", "", Some(Equal)),
            ("", "1", None),
            ("abc", "abd", None),
            ("abc", "abc", Some(Equal)),
            ("-1", "1", None),
            ("+1", "1", None),
            ("١", "1", None),
        ] {
            assert_eq!(compare_resource_versions(first, second), order, "{first} {second}");
            assert_eq!(ResourceVersion::from(first).partial_cmp(&second.into()), order);
        }
    }

    #[test]
    fn json_is_a_string() {
        let version: ResourceVersion = serde_json::from_str(r#""12""#).unwrap();
        assert_eq!(version, "12");
        assert_eq!(serde_json::to_string(&version).unwrap(), r#""12""#);
        assert_eq!(size_of::<Option<ResourceVersion>>(), 16);
    }

    proptest! {
        #[test]
        fn positive_integers_are_ordered_as_integers(first in 1..u64::MAX, second in 1..u64::MAX) {
            let order = compare_resource_versions(&first.to_string(), &second.to_string());
            prop_assert_eq!(order, Some(first.cmp(&second)));
        }
    }
}
