//! Server versions.

use std::fmt;

use kubewright_core::Value;

/// The version of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "version.Info")]
pub struct ServerVersion {
    /// The major number; a string, because some servers append to it.
    pub major: String,
    /// The minor number, such as `36` or `36+`.
    pub minor: String,
    /// The full version, such as `v1.36.0`.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// When it was built.
    pub build_date: String,
    /// The build platform, such as `linux/amd64`.
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

    /// Major and minor as numbers, without suffixes.
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
