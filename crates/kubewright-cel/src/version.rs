//! Semantic versions.

use std::cmp::Ordering;

use semver::Version;

/// A semantic version. Build metadata is ignored in comparisons.
#[derive(Debug, Clone)]
pub struct Semver(Version);

impl Semver {
    /// Parses a version such as `1.2.3-rc.1`, strictly as the specification defines it.
    pub fn parse(text: &str) -> Option<Semver> {
        Version::parse(text).ok().map(Semver)
    }

    /// Parses a version that may have the prefix `v`, leading zeros, or fewer than three numbers.
    pub(crate) fn parse_lax(text: &str) -> Option<Semver> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let without_zeros = |part: &str| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            part => part.to_owned(),
        };
        let mut core: Vec<String> = text[..end].split('.').map(without_zeros).collect();
        if core.len() < 3 && end < text.len() {
            return None;
        }
        core.resize(core.len().max(3), "0".to_owned());
        Semver::parse(&format!("{}{}", core.join("."), &text[end..]))
    }

    /// Major, minor and patch number.
    pub fn numbers(&self) -> [u64; 3] {
        [self.0.major, self.0.minor, self.0.patch]
    }

    /// Orders versions by precedence.
    pub fn compare(&self, other: &Semver) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Semver) -> bool {
        self.compare(other).is_eq()
    }
}

impl Eq for Semver {}
