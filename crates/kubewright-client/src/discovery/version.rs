//! Which version a server is.

use std::fmt;

use kubewright_core::Value;

/// What a server says of its own version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "version.Info")]
pub struct ServerVersion {
    /// The major number; text, because some add to it.
    pub major: String,
    /// The minor number, such as `36` or `36+`.
    pub minor: String,
    /// The whole, such as `v1.36.0`.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// When it was built.
    pub build_date: String,
    /// What it was built for, such as `linux/amd64`.
    pub platform: String,
}

impl ServerVersion {
    #[inline]
    pub(super) fn from_value(value: &Value) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        ServerVersion {
            major: text("major"),
            minor: text("minor"),
            git_version: text("gitVersion"),
            git_commit: text("gitCommit"),
            build_date: text("buildDate"),
            platform: text("platform"),
        }
    }

    /// Major and minor as numbers, whatever is added to them.
    #[inline]
    pub fn numbers(&self) -> Option<(u32, u32)> {
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        Some((number(&self.major)?, number(&self.minor)?))
    }
}

impl fmt::Display for ServerVersion {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git_version)
    }
}
