//! User impersonation.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The user to impersonate. The server decides whether that is permitted.
///
/// In a configuration it applies to all requests; in the extensions of a request
/// (`request.extensions_mut().insert(impersonation)`) it applies to that one instead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(alias = "ImpersonationConfig")]
pub struct Impersonation {
    /// The name of the user.
    pub user: String,
    /// The uid of the user.
    pub uid: Option<String>,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Extra attributes of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Impersonates this user, without groups except those of all users.
    pub fn user(name: impl Into<String>) -> Self {
        Impersonation { user: name.into(), ..Impersonation::default() }
    }

    /// Sets the uid.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Adds a value of an extra attribute.
    #[must_use]
    pub fn extra(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.entry(key.into()).or_default().push(value.into());
        self
    }

    /// Replaces the impersonation headers of a request.
    ///
    /// # Errors
    /// If a name or value cannot stand in a header.
    pub fn replace(&self, headers: &mut HeaderMap) -> Result<(), http::Error> {
        let before: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
        before.iter().for_each(|name| drop(headers.remove(name)));
        self.apply(headers)
    }

    /// Adds the headers, unless the request already impersonates a user.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) -> Result<(), http::Error> {
        const USER: HeaderName = HeaderName::from_static("impersonate-user");
        if headers.contains_key(USER) {
            return Ok(());
        }
        headers.insert(USER, HeaderValue::from_str(&self.user)?);
        if let Some(uid) = &self.uid {
            headers.insert(HeaderName::from_static("impersonate-uid"), HeaderValue::from_str(uid)?);
        }
        for group in &self.groups {
            headers.append(HeaderName::from_static("impersonate-group"), HeaderValue::from_str(group)?);
        }
        for (key, values) in &self.extra {
            let name =
                HeaderName::from_bytes(format!("impersonate-extra-{}", utf8_percent_encode(key, ESCAPED)).as_bytes())?;
            for value in values {
                headers.append(name.clone(), HeaderValue::from_str(value)?);
            }
        }
        Ok(())
    }
}

/// The characters that are invalid in a header name, and the percent sign. Header names are
/// case-insensitive; servers use lower-case keys.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    // TR-8
    #[test]
    fn all_that_is_known_of_the_user_is_sent() {
        let mut headers = HeaderMap::new();
        let impersonation = Impersonation {
            user: "jane".to_owned(),
            uid: Some("7".to_owned()),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            extra: BTreeMap::from([("Acme.com/Project%1".to_owned(), vec!["a".to_owned(), "b".to_owned()])]),
        };
        impersonation.apply(&mut headers).expect("all are valid");
        assert_eq!(headers["impersonate-user"], "jane");
        assert_eq!(headers["impersonate-uid"], "7");
        assert_eq!(headers.get_all("impersonate-group").iter().collect::<Vec<_>>(), ["dev", "ops"]);
        let extra = headers.get_all("impersonate-extra-acme.com%2fproject%251");
        assert_eq!(extra.iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    // TR-8
    #[test]
    fn explicit_impersonation_headers_are_not_overwritten() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", HeaderValue::from_static("bob"));
        let groups = vec!["dev".to_owned()];
        Impersonation { groups, ..Impersonation::user("jane") }.apply(&mut headers).expect("all are valid");
        assert_eq!(headers["impersonate-user"], "bob");
        assert!(!headers.contains_key("impersonate-group"));
    }
}
