//! Values that must not be printed.

use std::fmt;

/// A value that `Debug` redacts. Use [`expose`](Self::expose) to read it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// The value.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--- REDACTED ---")
    }
}

impl From<&str> for Secret<String> {
    fn from(text: &str) -> Self {
        Secret(text.to_owned())
    }
}

impl From<String> for Secret<String> {
    fn from(text: String) -> Self {
        Secret(text)
    }
}
