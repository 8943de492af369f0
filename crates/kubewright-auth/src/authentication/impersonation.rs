//! User impersonation by request headers, with the constraints of KEP 5284.
//!
//! A [mode](Mode) that fits the wanted user needs two permissions: to impersonate the user
//! (`impersonate:MODE`), and to perform the action of the request while doing so
//! (`impersonate-on:MODE:VERB`). The older verb `impersonate` allows all actions. As in
//! kube-apiserver, the modes are tried in order, and the error is that of the first one.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, validation};
use percent_encoding::percent_decode_str;

use crate::authorization::{self, Action, AuthorizationReader, ResourceAction};
use crate::{MASTERS, User};
use kubewright_objects::rejection::Rejection;

/// Prefix of the headers with extra user attributes.
const EXTRA: &str = "impersonate-extra-";
/// The API group of attributes that the core group has no resource for.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The extra attribute of a service account token that is bound to a node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this number of values on, a permission for all of them is looked for first.
const MANY_VALUES: usize = 4;

/// The effective user of a request: `user`, unless the headers impersonate another one.
///
/// `action` is what the request does.
pub fn impersonate(
    objects: &dyn AuthorizationReader,
    user: User,
    headers: &HeaderMap,
    action: Action<'_>,
) -> Result<User, Rejection> {
    let Some(wanted) = wanted_user(headers)? else { return Ok(user) };
    let mut first_refusal = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.fits(&wanted, &user)) {
        match (Impersonation { objects, user: &user, mode }).impersonated(&wanted, action) {
            Ok(impersonated) => return Ok(impersonated),
            Err(pending @ Rejection::NeedsAuthorization(_)) => return Err(pending),
            Err(refusal) => drop(first_refusal.get_or_insert(refusal)),
        }
    }
    Err(first_refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed").into()))
}

/// The user that the headers describe, if they do.
fn wanted_user(headers: &HeaderMap) -> Result<Option<User>, Rejection> {
    let header = |name: &str| headers.get(name).map(text).transpose();
    let groups = headers.get_all("impersonate-group").iter().map(text).collect::<Result<Vec<Str>, _>>()?;
    let extra = extra(headers)?;
    let uid = header("impersonate-uid")?.unwrap_or_default();
    let name = header("impersonate-user")?.unwrap_or_default();
    if !name.is_empty() {
        return Ok(Some(User { name, uid, groups, extra }));
    }
    let asked = [(!groups.is_empty(), "groups"), (!extra.is_empty(), "extra"), (!uid.is_empty(), "uid")];
    match asked.iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(None),
        Some((_, what)) => {
            Err(Status::bad_request(format!("requested {what} without impersonating a user name")).into())
        }
    }
}

/// How a user is impersonated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account impersonates the node that its token is bound to.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// All other users.
    UserInfo,
    /// The verb `impersonate`, for all users and all actions.
    Legacy,
}

impl Mode {
    const ALL: [Mode; 5] =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "legacy",
        }
    }

    /// Whether `user` may try to impersonate `wanted` in this mode.
    fn fits(self, wanted: &User, user: &User) -> bool {
        let has_only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        match self {
            Mode::AssociatedNode => {
                let is_bound_to = |node: &str| user.extra.get(NODE_NAME).is_some_and(|names| names[..] == [node]);
                has_only_name && service_account(&user.name).is_some() && node(&wanted.name).is_some_and(is_bound_to)
            }
            Mode::ArbitraryNode => has_only_name && node(&wanted.name).is_some(),
            Mode::ServiceAccount => has_only_name && service_account(&wanted.name).is_some(),
            Mode::UserInfo => node(&wanted.name).is_none() && service_account(&wanted.name).is_none(),
            Mode::Legacy => true,
        }
    }
}

/// The node of a user name such as `system:node:n1`.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|node| validation::dns1123_subdomain(node).is_empty())
}

/// The namespace and name of a service account.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_valid = validation::dns1123_label(namespace).is_empty() && validation::dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// The checks of one mode.
struct Impersonation<'a> {
    objects: &'a dyn AuthorizationReader,
    user: &'a User,
    mode: Mode,
}

impl Impersonation<'_> {
    /// The impersonated user, if `user` has all permissions.
    fn impersonated(&self, wanted: &User, action: Action<'_>) -> Result<User, Rejection> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), action.verb());
            authorization::authorize(self.objects, self.user, action.with_verb(&verb))?;
        }
        let mut groups = wanted.groups.clone();
        groups.extend(self.authorize_name(wanted)?);
        if !wanted.uid.is_empty() {
            self.authorize(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
        }
        self.authorize_groups(&wanted.groups)?;
        self.authorize_extra(&wanted.extra)?;
        // The system groups follow from the user name, unless the caller sets one of them
        // explicitly.
        let has = |group: &str| groups.iter().any(|have| have == group);
        match (wanted.name == "system:anonymous", has("system:authenticated"), has("system:unauthenticated")) {
            (true, _, false) => groups.push("system:unauthenticated".into()),
            (false, false, false) => groups.push("system:authenticated".into()),
            _ => {}
        }
        Ok(User { groups, ..wanted.clone() })
    }

    fn is_constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    /// The API group of users and groups in this mode.
    fn group_of_names(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    /// Authorizes the user name, and returns the groups that follow from it.
    fn authorize_name(&self, wanted: &User) -> Result<Vec<Str>, Rejection> {
        let group = self.group_of_names();
        if let Some(node) = node(&wanted.name).filter(|_| self.is_constrained()) {
            // The permission for the associated node is one for whatever node that is.
            let name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            self.authorize(group, "nodes", "", "", name)?;
            return Ok(vec!["system:nodes".into()]);
        }
        let Some((namespace, name)) = service_account(&wanted.name) else {
            self.authorize(group, "users", "", "", &wanted.name)?;
            return Ok(Vec::new());
        };
        self.authorize(group, "serviceaccounts", "", namespace, name)?;
        if !wanted.groups.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()])
    }

    fn authorize_groups(&self, groups: &[Str]) -> Result<(), Rejection> {
        let group = self.group_of_names();
        if self.is_constrained() {
            if groups.iter().any(|group| group.is_empty()) {
                let why = "impersonating the empty string group is not allowed";
                return Err(self.refused("groups", "", why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refused("groups", MASTERS, why));
            }
            if groups.len() >= MANY_VALUES && self.is_allowed(group, "groups", "", "*")? {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| self.authorize(group, "groups", "", "", name))
    }

    fn authorize_extra(&self, extra: &BTreeMap<Str, Vec<Str>>) -> Result<(), Rejection> {
        if self.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| why_not_extra(key, values)) {
                return Err(self.refused("userextras", "", &why));
            }
            let is_long = extra.values().map(Vec::len).sum::<usize>() >= MANY_VALUES;
            if is_long && self.is_allowed(AUTHENTICATION, "userextras", "*", "*")? {
                return Ok(());
            }
        }
        for (key, values) in extra {
            values.iter().try_for_each(|value| self.authorize(AUTHENTICATION, "userextras", key, "", value))?;
        }
        Ok(())
    }

    /// Whether one attribute may be impersonated.
    fn is_allowed(&self, group: &str, resource: &str, subresource: &str, name: &str) -> Result<bool, Rejection> {
        match self.authorize(group, resource, subresource, "", name) {
            Ok(()) => Ok(true),
            Err(Rejection::Status(_)) => Ok(false),
            Err(pending) => Err(pending),
        }
    }

    /// Checks the permission to impersonate one attribute.
    fn authorize(
        &self,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Rejection> {
        let verb = &*self.verb();
        let action = Action::Resource(ResourceAction {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            ..ResourceAction::default()
        });
        authorization::authorize(self.objects, self.user, action)
    }

    /// The refusal of an attribute that nobody may impersonate.
    fn refused(&self, resource: &str, name: &str, why: &str) -> Rejection {
        let group = if resource == "userextras" { AUTHENTICATION } else { self.group_of_names() };
        let action =
            Action::Resource(ResourceAction { verb: &self.verb(), group, resource, name, ..ResourceAction::default() });
        action.forbidden(self.user, &format!(": {why}")).into()
    }

    fn verb(&self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.mode.name()) } else { "impersonate".to_owned() }
    }
}

/// Why an extra attribute cannot be impersonated in a constrained mode.
fn why_not_extra(key: &str, values: &[Str]) -> Option<String> {
    let why = if key.is_empty() {
        "the empty string key in extra"
    } else if !kubewright_validation::validation::is_domain_path(key) {
        return Some(format!("impersonating an invalid key in extra is not allowed: {key:?}"));
    } else if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
    } else if values.is_empty() {
        "empty values in extra"
    } else if values.iter().any(|value| value.is_empty()) {
        "the empty string value in extra"
    } else {
        return None;
    };
    Some(format!("impersonating {why} is not allowed"))
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
            let key = percent_decode_str(key).decode_utf8_lossy();
            extra.entry(key.into_owned().into()).or_default().push(text(value)?);
        }
    }
    Ok(extra)
}
