//! Resources that are asked and not kept: who am I, what may I do, and the old way to bind pods.

use hyper::StatusCode;
use kubewright_core::Value;
use kubewright_core::options::CreateOptions;

use crate::accept::Offer;
use crate::authentication::User;
use crate::authorization;
use crate::catalog::Resource;
use crate::decoding::Expected;
use crate::encoding::{self, Wanted};
use crate::http::Answer;
use crate::object::{Meta, tree};
use crate::rejection::Rejection;
use crate::request::{RequestInfo, Target};
use crate::routes;
use crate::service::Call;

/// Answers the creation of a review.
pub(crate) fn answer(call: &mut Call<'_>, resource: &Resource, namespace: &str) -> Result<Answer, Rejection> {
    let options = CreateOptions::from_query(call.query)?;
    let mut review = routes::decode(call, Expected::from(resource), options.field_validation)?;
    match (&*resource.group, &*resource.plural) {
        ("", "bindings") => {
            let catalog = call.registry.catalog();
            let pods = catalog.of_storage("pods").ok_or_else(Rejection::no_such_resource)?;
            let name = review.name().to_owned();
            call.registry.bind(pods, namespace, &name, &review, options.dry_run)?;
            return routes::done(call);
        }
        ("authentication.k8s.io", "selfsubjectreviews") => {
            tree::set(&mut review, &["status"], tree::map([("userInfo", user_info(call.user))]));
        }
        ("authorization.k8s.io", "selfsubjectaccessreviews") => {
            let allowed = authorization::is_allowed(call.user, &attributes(&review));
            tree::set(&mut review, &["status"], tree::map([("allowed", allowed.into())]));
        }
        ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews") => {
            let mut user = User { name: tree::text(&review, &["spec", "user"]).into(), ..User::default() };
            let groups = tree::items(&review, &["spec", "groups"]).iter().filter_map(Value::as_str);
            user.groups = groups.map(Into::into).collect();
            let allowed = authorization::is_allowed(&user, &attributes(&review));
            tree::set(&mut review, &["status"], tree::map([("allowed", allowed.into())]));
        }
        (_, plural) => return Err(Rejection::not_implemented(plural)),
    }
    let wanted = Wanted::negotiate(call.headers, call.query, Offer::Plain)?;
    Ok(Answer::document(StatusCode::CREATED, wanted, encoding::tree(wanted, &review)?))
}

fn user_info(user: &User) -> Value {
    let mut info = tree::map([("username", user.name.clone().into())]);
    if !user.uid.is_empty() {
        tree::set(&mut info, &["uid"], user.uid.clone());
    }
    tree::set(&mut info, &["groups"], tree::list(user.groups.iter().map(|group| group.as_str())));
    info
}

/// What a review asks about, as if it were requested.
fn attributes(review: &Value) -> RequestInfo {
    const VERBS: [&str; 11] =
        ["create", "delete", "deletecollection", "get", "head", "list", "patch", "post", "put", "update", "watch"];
    let known = |verb: &str| VERBS.into_iter().find(|known| *known == verb).unwrap_or("unknown");
    if let Some(path) = tree::get(review, &["spec", "nonResourceAttributes"]) {
        let verb = known(tree::text(path, &["verb"]));
        return RequestInfo { verb, path: tree::text(path, &["path"]).into(), target: None };
    }
    let text = |field: &str| tree::text(review, &["spec", "resourceAttributes", field]);
    let target = Target {
        group: text("group").into(),
        version: text("version").into(),
        namespace: text("namespace").into(),
        resource: text("resource").into(),
        name: text("name").into(),
        subresource: text("subresource").into(),
        ..Target::default()
    };
    RequestInfo { verb: known(text("verb")), path: "".into(), target: Some(target) }
}
