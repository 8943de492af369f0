//! Virtual resources: token and access reviews, and the deprecated binding of pods.

use hyper::StatusCode;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::CreateOptions;
use kubewright_core::{GroupKind, Value};

use crate::call::Call;
use crate::http::ApiResponse;
use crate::registry::Registry;
use crate::routes;
use kubewright_auth::User;
use kubewright_auth::authorization::{self, Action, Decision, ReviewSelectors};
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::object::{Meta, texts, tree};
use kubewright_objects::rejection::{Rejection, retry_with_answers};
use kubewright_resources::accept::Offer;
use kubewright_resources::catalog::Resource;
use kubewright_resources::decoding::ExpectedType;

/// Handles the creation of a review.
pub(crate) async fn answer(
    call: &mut Call<'_>,
    resource: &Resource,
    namespace: &str,
) -> Result<ApiResponse, Rejection> {
    let options = CreateOptions::from_query(call.query)?;
    let mut review = routes::decode(call, ExpectedType::from(resource), options.field_validation)?;
    match (&*resource.group, &*resource.plural) {
        ("", "bindings") => {
            let catalog = call.registry.catalog();
            let pods = catalog.of_storage("pods").ok_or_else(Rejection::no_such_resource)?;
            let name = review.name().to_owned();
            call.registry.bind(pods, namespace, &name, &review, options.dry_run)?;
            return routes::done(call);
        }
        ("authentication.k8s.io", "selfsubjectreviews") => {
            tree::set(&mut review, &["status"], tree::map([("userInfo", call.user.info())]));
        }
        ("authentication.k8s.io", "tokenreviews") => {
            let asked = texts(tree::get(&review, &["spec", "audiences"]));
            let own = call.authenticator.accounts.api_audiences();
            let audiences = if asked.is_empty() { own } else { &asked };
            let token = tree::text(&review, &["spec", "token"]);
            let status = match call.authenticator.user(call.registry, token, audiences) {
                Some((user, audiences)) => {
                    let mut status = tree::map([("authenticated", true.into()), ("user", user.info())]);
                    // Only tokens of service accounts have audiences.
                    if !asked.is_empty() || user.is_in("system:serviceaccounts") {
                        let audiences = tree::list(audiences.iter().map(|audience| audience.as_str()));
                        tree::set(&mut status, &["audiences"], audiences);
                    }
                    status
                }
                None => tree::map([("user", tree::map([])), ("error", "[invalid bearer token]".into())]),
            };
            tree::set(&mut review, &["status"], status);
        }
        ("authorization.k8s.io", "selfsubjectaccessreviews") => {
            check_attributes(&review)?;
            let decision = decide(call.registry, call.user, &review).await?;
            tree::set(&mut review, &["status"], decided(decision));
        }
        ("authorization.k8s.io", plural @ ("subjectaccessreviews" | "localsubjectaccessreviews")) => {
            check_attributes(&review)?;
            let is_local = plural == "localsubjectaccessreviews";
            if is_local && review.namespace().is_empty() {
                review.set_meta("namespace", namespace);
            }
            check_subject(&review, is_local.then_some(namespace))?;
            let mut user = User { name: tree::text(&review, &["spec", "user"]).into(), ..User::default() };
            let groups = tree::items(&review, &["spec", "groups"]).iter().filter_map(Value::as_str);
            user.groups = groups.map(Into::into).collect();
            let decision = decide(call.registry, &user, &review).await?;
            tree::set(&mut review, &["status"], decided(decision));
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => {
            let namespace = match tree::text(&review, &["spec", "namespace"]) {
                "" => return Err(Status::bad_request("no namespace on request").into()),
                namespace => namespace,
            };
            let rules = authorization::rules_of(call.registry, call.user, namespace);
            tree::set(&mut review, &["status"], rules_status(&rules));
        }
        (_, plural) => return Err(Rejection::not_implemented(plural)),
    }
    let wanted = Wanted::negotiate(call.headers, call.query, Offer::Plain)?;
    Ok(ApiResponse::document(StatusCode::CREATED, wanted, encoding::tree(wanted, &review)?))
}

async fn decide(registry: &Registry, user: &User, review: &Value) -> Result<Decision, Rejection> {
    let selectors = ReviewSelectors::new(review);
    let action = Action::of_review(review, &selectors);
    retry_with_answers(|| authorization::decide(registry, user, action)).await
}

/// Requires either resource or non-resource attributes.
fn check_attributes(review: &Value) -> Result<(), Rejection> {
    let has = |field: &str| tree::get(review, &["spec", field]).is_some();
    let cause = match (has("resourceAttributes"), has("nonResourceAttributes")) {
        (true, true) => {
            let shown = tree::get(review, &["spec", "nonResourceAttributes"]).cloned().unwrap_or_default();
            let why = "cannot be specified in combination with resourceAttributes";
            StatusCause::invalid("spec.nonResourceAttributes", shown, why)
        }
        (false, false) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            StatusCause::invalid("spec.resourceAttributes", "null", why)
        }
        _ => return Ok(()),
    };
    Err(Status::invalid(&GroupKind::from_static("authorization.k8s.io", ""), "", [cause]).into())
}

/// Requires a subject. A local review is about a resource in its own namespace.
fn check_subject(review: &Value, namespace: Option<&str>) -> Result<(), Rejection> {
    let mut causes = Vec::new();
    let user = tree::text(review, &["spec", "user"]);
    if user.is_empty() && tree::items(review, &["spec", "groups"]).is_empty() {
        let why = "at least one of user or group must be specified";
        causes.push(StatusCause::invalid("spec.user", format!("{user:?}"), why));
    }
    if let Some(namespace) = namespace {
        if review.namespace() != namespace {
            let why = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
            return Err(Status::bad_request(why).into());
        }
        let asked = tree::text(review, &["spec", "resourceAttributes", "namespace"]);
        if tree::get(review, &["spec", "resourceAttributes"]).is_some() && asked != namespace {
            let field = "spec.resourceAttributes.namespace";
            causes.push(StatusCause::invalid(field, format!("{asked:?}"), "must match metadata.namespace"));
        }
        if let Some(path) = tree::get(review, &["spec", "nonResourceAttributes"]) {
            let why = "disallowed on this kind of request";
            causes.push(StatusCause::invalid("spec.nonResourceAttributes", path.clone(), why));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::from_static("authorization.k8s.io", ""), "", causes).into())
}

fn decided(decision: Decision) -> Value {
    let mut status = tree::map([("allowed", decision.is_allowed.into())]);
    if !decision.reason.is_empty() {
        tree::set(&mut status, &["reason"], decision.reason);
    }
    status
}

/// The status of a rules review, with resource rules and non-resource rules.
fn rules_status(rules: &[Value]) -> Value {
    let with = |field: &str, fields: &[&str]| {
        let chosen = rules.iter().filter(|rule| tree::get(rule, &[field]).is_some());
        let shown = chosen.map(|rule| {
            let kept = fields.iter().filter_map(|field| Some((*field, tree::get(rule, &[field])?.clone())));
            Value::Object(kept.collect())
        });
        Value::Array(shown.collect())
    };
    tree::map([
        ("resourceRules", with("resources", &["verbs", "apiGroups", "resources", "resourceNames"])),
        ("nonResourceRules", with("nonResourceURLs", &["verbs", "nonResourceURLs"])),
        ("incomplete", false.into()),
    ])
}
