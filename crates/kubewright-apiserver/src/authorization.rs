//! Who may do what. For now: masters may do everything, all others what is public or about themselves.
//!
//! This is the seam for role-based access: it gets all that a decision can depend on, and answers in its words.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str};

use crate::authentication::{MASTERS, User};
use crate::rejection::Rejection;
use crate::request::RequestInfo;

/// Paths that everybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Paths that everybody may read who has shown credentials.
const DISCOVERY: [&str; 4] = ["/api", "/apis", "/openapi", "/version"];

/// Resources that everybody may create who has shown credentials: they ask about the user.
const ABOUT_ONESELF: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];

/// Lets a request pass, or says why not.
pub(crate) fn authorize(user: &User, info: &RequestInfo, selected: Option<&Str>) -> Result<(), Rejection> {
    if is_allowed(user, info) { Ok(()) } else { Err(forbidden(user, info, selected).into()) }
}

/// Whether a user may do this.
pub(crate) fn is_allowed(user: &User, info: &RequestInfo) -> bool {
    let is_known = user.is_in("system:authenticated");
    user.is_in(MASTERS)
        || match &info.target {
            Some(target) => is_known && info.verb == "create" && ABOUT_ONESELF.contains(&target.resource.as_str()),
            None => {
                let path = info.path.trim_end_matches('/');
                let reads = matches!(info.verb, "get" | "head");
                let below =
                    |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
                reads && (PUBLIC.contains(&path) || (is_known && DISCOVERY.into_iter().any(below)))
            }
        }
}

fn forbidden(user: &User, info: &RequestInfo, selected: Option<&Str>) -> Status {
    let (name, verb) = (&user.name, info.verb);
    let Some(target) = &info.target else {
        let why = format!("User {name:?} cannot {verb} path {:?}", info.path);
        return Status::forbidden(&GroupResource::default(), "", why);
    };
    let resource = match &*target.subresource {
        "" => target.resource.to_string(),
        subresource => format!("{}/{subresource}", target.resource),
    };
    let place = match target.authorized_namespace() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let group = &target.group;
    let why = format!("User {name:?} cannot {verb} resource {resource:?} in API group {group:?} {place}");
    let object = info.authorized_name(selected.map(Str::as_str).unwrap_or_default());
    Status::forbidden(&GroupResource::new(group.clone(), target.resource.clone()), object, why)
}
