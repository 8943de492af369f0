//! Users in the headers of a front proxy, which authenticates by a client certificate.

use std::path::PathBuf;

use hyper::HeaderMap;
use kubewright_core::Str;
use percent_encoding::percent_decode_str;

use crate::User;

/// Settings of authentication by the headers of a front proxy, as the flags `--requestheader-…` of
/// kube-apiserver.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RequestHeaderOptions {
    /// A PEM file with the authorities of the proxies' client certificates.
    pub client_ca_file: PathBuf,
    /// The common names of the proxies. Empty for every certificate of the authorities.
    pub allowed_names: Vec<String>,
    /// The headers with the name of the user. The first one that is not empty counts.
    pub username_headers: Vec<String>,
    /// The headers with the UID of the user.
    pub uid_headers: Vec<String>,
    /// The headers with the groups of the user.
    pub group_headers: Vec<String>,
    /// How headers with extra attributes begin.
    pub extra_header_prefixes: Vec<String>,
}

impl RequestHeaderOptions {
    /// Whether a proxy with this common name is believed.
    pub(super) fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == name)
    }

    /// The user in the headers. `None` if they name no user.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let values = |name: &String| headers.get_all(name.as_str()).iter().filter_map(|value| value.to_str().ok());
        let first = |names: &[String]| names.iter().flat_map(values).find(|value| !value.is_empty()).map(Str::from);
        let name = first(&self.username_headers)?;
        let uid = first(&self.uid_headers).unwrap_or_default();
        let groups = self.group_headers.iter().flat_map(values).map(Str::from).collect();
        let mut user = User::authenticated(name, uid, groups);
        for (header, value) in headers {
            let header = header.as_str();
            let prefixes = self.extra_header_prefixes.iter();
            let key = prefixes.filter_map(|prefix| header.strip_prefix(&*prefix.to_ascii_lowercase())).next();
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                user = user.with_extra(&percent_decode_str(key).decode_utf8_lossy(), value);
            }
        }
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RequestHeaderOptions {
        RequestHeaderOptions {
            username_headers: vec!["X-Remote-User".into()],
            group_headers: vec!["X-Remote-Group".into()],
            extra_header_prefixes: vec!["X-Remote-Extra-".into()],
            ..RequestHeaderOptions::default()
        }
    }

    #[test]
    fn headers_become_name_groups_and_extra_attributes() {
        let mut headers = HeaderMap::new();
        assert_eq!(options().user(&headers), None);
        for (name, value) in [
            ("x-remote-user", "jane"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.org%2fteam", "blue"),
        ] {
            headers.append(name, value.parse().expect("text"));
        }
        let user = options().user(&headers).expect("there is a name");
        assert_eq!(user.name, "jane");
        assert!(user.is_in("dev") && user.is_in("ops") && user.is_in("system:authenticated"));
        assert_eq!(user.extra["example.org/team"], ["blue"]);
    }

    #[test]
    fn names_of_proxies_can_be_restricted() {
        assert!(options().allows("any"));
        let options = RequestHeaderOptions { allowed_names: vec!["front".into()], ..options() };
        assert!(options.allows("front") && !options.allows("other"));
    }
}
