//! Acting as somebody else, for those who may.

use hyper::HeaderMap;
use kubewright_core::Str;
use kubewright_core::meta::v1::Status;

use super::User;
use crate::authorization::{self, Action};
use crate::registry::Registry;
use crate::rejection::Rejection;

/// The user that a request is to be treated as; who asks, unless the headers name another.
pub(crate) fn impersonate(registry: &Registry, user: User, headers: &HeaderMap) -> Result<User, Rejection> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(Str::from);
    let groups = headers.get_all("impersonate-group").iter().filter_map(|value| value.to_str().ok());
    let groups: Vec<Str> = groups.map(Str::from).collect();
    let Some(name) = text("impersonate-user").filter(|name| !name.is_empty()) else {
        return match groups.is_empty() {
            true => Ok(user),
            false => Err(Status::internal("requested groups without impersonating a user").into()),
        };
    };
    let uid = text("impersonate-uid").unwrap_or_default();
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        let verb = "impersonate";
        authorization::authorize(
            registry,
            &user,
            Action::Resource { verb, group, resource, subresource: "", namespace, name },
        )
    };
    match name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, account)) => may("", "serviceaccounts", namespace, account)?,
        None => may("", "users", "", &name)?,
    }
    groups.iter().try_for_each(|group| may("", "groups", "", group))?;
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", &uid)?;
    }
    if name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    Ok(User::authenticated(name, uid, groups))
}
