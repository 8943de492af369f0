//! The string of all API types: 16 bytes, short strings inline, long ones shared.

use std::borrow::{Borrow, Cow};
use std::ops::Deref;
use std::{convert::Infallible, fmt, str::FromStr};

use lean_string::LeanStr;

/// An immutable, memory-efficient string.
///
/// Up to 16 bytes are inline, longer text is in a reference-counted allocation. `clone` never
/// copies text, and `Option<Str>` is no larger than `Str`.
///
/// ```
/// use kubewright_core::Str;
/// let name = Str::from("web-0");
/// assert_eq!(name, "web-0");
/// assert_eq!(size_of::<Option<Str>>(), 16);
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(LeanStr);

impl Str {
    /// The empty string.
    pub const fn new() -> Self {
        Str(LeanStr::new())
    }

    /// A static string, without allocation.
    pub const fn from_static(text: &'static str) -> Self {
        Str(LeanStr::from_static_str(text))
    }

    /// The text.
    #[inline]
    pub const fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the text is in a heap allocation, which clones share.
    pub fn is_heap_allocated(&self) -> bool {
        self.0.is_heap_allocated()
    }
}

impl Deref for Str {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Str(LeanStr::from(text))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Str(LeanStr::from(text.as_str()))
    }
}

impl From<&String> for Str {
    fn from(text: &String) -> Self {
        Str(LeanStr::from(text.as_str()))
    }
}

impl From<Cow<'_, str>> for Str {
    fn from(text: Cow<'_, str>) -> Self {
        Str(LeanStr::from(text.as_ref()))
    }
}

impl From<&Str> for Str {
    fn from(text: &Str) -> Self {
        text.clone()
    }
}

impl From<Str> for String {
    fn from(text: Str) -> Self {
        text.as_str().to_owned()
    }
}

impl FromStr for Str {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Str {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<Str> for str {
    fn eq(&self, other: &Str) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<Str> for &str {
    fn eq(&self, other: &Str) -> bool {
        *self == other.as_str()
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for Str {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Str {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl serde_core::de::Visitor<'_> for StrVisitor {
            type Value = Str;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<Str, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_inline_and_long_text_is_shared() {
        assert!(!Str::from("0123456789abcdef").is_heap_allocated());
        let long = Str::from("0123456789abcdefg");
        assert!(long.is_heap_allocated());
        assert!(std::ptr::eq(long.as_str(), long.clone().as_str()));
    }
}
