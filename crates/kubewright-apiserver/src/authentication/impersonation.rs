//! Acting as somebody else, for those who may.

use hyper::HeaderMap;
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str};

use super::{MASTERS, User};
use crate::rejection::Rejection;

/// The user that a request is to be treated as; who asks, unless the headers name another.
pub(crate) fn impersonate(user: User, headers: &HeaderMap) -> Result<User, Rejection> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(Str::from);
    let groups = headers.get_all("impersonate-group").iter().filter_map(|value| value.to_str().ok());
    let groups: Vec<Str> = groups.map(Str::from).collect();
    let Some(name) = text("impersonate-user").filter(|name| !name.is_empty()) else {
        return match groups.is_empty() {
            true => Ok(user),
            false => Err(Status::internal("requested groups without impersonating a user").into()),
        };
    };
    if !user.is_in(MASTERS) {
        let why = format!(
            "User {:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
            user.name.as_str()
        );
        return Err(Status::forbidden(&GroupResource::from_static("", "users"), &name, why).into());
    }
    let uid = text("impersonate-uid").unwrap_or_default();
    if name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    Ok(User::authenticated(name, uid, groups))
}
