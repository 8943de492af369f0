//! Asking in the name of somebody else.

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Whom a request pretends to come from. The server has to allow it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "ImpersonationConfig")]
pub struct Impersonation {
    /// The user.
    pub user: String,
    /// The user's id.
    pub uid: Option<String>,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// More about the user, as authenticators add it; a key may come more than once.
    pub extra: Vec<(String, String)>,
}

impl Impersonation {
    /// This user, in no group.
    pub fn user(user: impl Into<String>) -> Self {
        Impersonation { user: user.into(), ..Default::default() }
    }

    /// With this id.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Also in this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Also with this value of an extra key.
    #[must_use]
    pub fn extra(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((key.into(), value.into()));
        self
    }

    /// Adds the headers that say so, in place of those that are there.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) -> Result<(), String> {
        let ours = |name: &HeaderName| name.as_str().starts_with("impersonate-");
        let before: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
        before.iter().for_each(|name| drop(headers.remove(name)));
        let value = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes()).map_err(|_| format!("cannot impersonate {text:?}: not a header"))
        };
        headers.insert("impersonate-user", value(&self.user)?);
        if let Some(uid) = &self.uid {
            headers.insert("impersonate-uid", value(uid)?);
        }
        for group in &self.groups {
            headers.append("impersonate-group", value(group)?);
        }
        for (key, text) in &self.extra {
            let name = format!("impersonate-extra-{}", escape_key(key));
            let name = HeaderName::try_from(name).map_err(|_| format!("cannot impersonate with the key {key:?}"))?;
            headers.append(name, value(text)?);
        }
        Ok(())
    }
}

/// Keys are part of a header's name; what cannot stand there is percent-encoded, as servers expect it.
fn escape_key(key: &str) -> String {
    let mut out = String::new();
    for byte in key.to_lowercase().bytes() {
        match byte {
            b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'!'
            | b'#'
            | b'$'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'^'
            | b'`'
            | b'|' => out.push(byte.into()),
            byte => write!(out, "%{byte:02x}").expect("writing to a string cannot fail"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_who() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", HeaderValue::from_static("somebody"));
        let who = Impersonation::user("jane").uid("7").group("a").group("b").extra("example.com/Scope", "x");
        who.apply(&mut headers).unwrap();
        assert_eq!(headers["impersonate-user"], "jane");
        assert_eq!(headers["impersonate-uid"], "7");
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["a", "b"]);
        assert_eq!(headers["impersonate-extra-example.com%2fscope"], "x");
        assert!(Impersonation::user("a\nb").apply(&mut headers).is_err());
    }
}
