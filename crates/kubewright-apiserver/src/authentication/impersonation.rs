//! User impersonation by request headers.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use kubewright_core::Str;
use kubewright_core::meta::v1::Status;

use crate::authorization::{self, Action};
use crate::request::unescape;
use crate::user::User;
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::rejection::Rejection;

/// Prefix of the headers with extra user attributes.
const EXTRA: &str = "impersonate-extra-";

/// The effective user of a request: `user`, unless the headers impersonate another one.
pub(crate) fn impersonate(objects: &dyn ObjectReader, user: User, headers: &HeaderMap) -> Result<User, Rejection> {
    let header = |name: &str| headers.get(name).map(text).transpose();
    let mut groups = headers.get_all("impersonate-group").iter().map(text).collect::<Result<Vec<Str>, _>>()?;
    let extra = extra(headers)?;
    let uid = header("impersonate-uid")?.unwrap_or_default();
    let Some(name) = header("impersonate-user")?.filter(|name| !name.is_empty()) else {
        let asked = [(!groups.is_empty(), "groups"), (!extra.is_empty(), "extra"), (!uid.is_empty(), "uid")];
        return match asked.iter().find(|(is_asked, _)| *is_asked) {
            None => Ok(user),
            Some((_, what)) => Err(Status::internal(format!("requested {what} without impersonating a user")).into()),
        };
    };
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let verb = "impersonate";
        authorization::authorize(
            objects,
            &user,
            Action::Resource { verb, group, resource, subresource, namespace, name },
        )
    };
    let account = name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    match account {
        Some((namespace, account)) => may("", "serviceaccounts", "", namespace, account)?,
        None => may("", "users", "", "", &name)?,
    }
    groups.iter().try_for_each(|group| may("", "groups", "", "", group))?;
    for (key, values) in &extra {
        values.iter().try_for_each(|value| may("authentication.k8s.io", "userextras", key, "", value))?;
    }
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", "", &uid)?;
    }
    if let (Some((namespace, _)), true) = (account, groups.is_empty()) {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()];
    }
    // The system groups follow from the user name, unless the caller sets one of them explicitly.
    let has = |group: &str| groups.iter().any(|have| have == group);
    match (name == "system:anonymous", has("system:authenticated"), has("system:unauthenticated")) {
        (true, _, false) => groups.push("system:unauthenticated".into()),
        (false, false, false) => groups.push("system:authenticated".into()),
        _ => {}
    }
    Ok(User { name, uid, groups, extra })
}

/// The UTF-8 text of a header.
///
/// # Errors
///
/// The header is not UTF-8. Ignoring it would run the request as a different user.
fn text(value: &HeaderValue) -> Result<Str, Rejection> {
    let text = std::str::from_utf8(value.as_bytes()).map(Str::from);
    text.map_err(|_| Status::bad_request("an impersonation header is not UTF-8").into())
}

/// The extra attributes in the headers, by name.
fn extra(headers: &HeaderMap) -> Result<BTreeMap<Str, Vec<Str>>, Rejection> {
    let mut extra: BTreeMap<Str, Vec<Str>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.entry(unescape(key).into()).or_default().push(text(value)?);
        }
    }
    Ok(extra)
}
