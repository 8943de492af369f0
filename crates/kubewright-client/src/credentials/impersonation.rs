//! Acting as somebody else.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Who to act as. The server decides who may.
///
/// As part of a configuration it counts for all requests; put into the extensions of one request
/// (`request.extensions_mut().insert(impersonation)`), it counts for that one instead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(alias = "ImpersonationConfig")]
pub struct Impersonation {
    /// The name of the user.
    pub user: String,
    /// The unique id of the user.
    pub uid: Option<String>,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// More about the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Acting as this user, and in no group but those that all users are in.
    pub fn user(name: impl Into<String>) -> Self {
        Impersonation { user: name.into(), ..Impersonation::default() }
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
        self.extra.entry(key.into()).or_default().push(value.into());
        self
    }

    /// Adds the headers in place of those of somebody else.
    pub(crate) fn replace(&self, headers: &mut HeaderMap) -> Result<(), http::Error> {
        let before: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
        before.iter().for_each(|name| drop(headers.remove(name)));
        self.apply(headers)
    }

    /// Adds the headers, unless the request already names somebody.
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
            let name = HeaderName::from_bytes(format!("impersonate-extra-{}", escape(key)).as_bytes())?;
            for value in values {
                headers.append(name.clone(), HeaderValue::from_str(value)?);
            }
        }
        Ok(())
    }
}

/// A key with all that a header's name cannot have as percent escapes; the percent sign itself among them.
fn escape(key: &str) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        match byte {
            // Names of headers know no case; servers take keys in small letters.
            byte if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

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
    fn a_request_that_names_somebody_is_left_alone() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", HeaderValue::from_static("bob"));
        let groups = vec!["dev".to_owned()];
        Impersonation { groups, ..Impersonation::user("jane") }.apply(&mut headers).expect("all are valid");
        assert_eq!(headers["impersonate-user"], "bob");
        assert!(!headers.contains_key("impersonate-group"));
    }
}
