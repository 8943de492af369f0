//! Discovery: which groups, versions and resources are served.

use hyper::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use hyper::{Method, StatusCode};
use kubewright_core::Value;

use crate::accept::{Form, Offer};
use crate::discovery::etag;
use crate::encoding::{self, Wanted};
use crate::http::Answer;
use crate::rejection::Rejection;
use crate::service::Call;

/// Answers a request below `/api` or `/apis`.
pub(super) fn answer(call: &Call<'_>, parts: &[&str]) -> Result<Answer, Rejection> {
    let catalog = call.registry.catalog();
    let discovery = catalog.discovery();
    let is_all = matches!(parts, ["api"] | ["apis"]);
    // Groups of custom resources have no routes by which a method could be the wrong one.
    let is_custom = matches!(parts, ["apis", group, ..] if !catalog.is_built_in(group));
    let offer = match parts {
        _ if is_all => Offer::Discovery,
        ["apis", _, _] if is_custom => Offer::CustomGroup,
        _ => Offer::Plain,
    };
    let wanted = Wanted::negotiate(call.headers, call.query, offer)?;
    let is_aggregated = wanted.form == Form::AggregatedDiscovery;
    let document = match parts {
        ["api"] if is_aggregated => Some(discovery.aggregated_core()),
        ["apis"] if is_aggregated => Some(discovery.aggregated_groups()),
        ["api"] => Some(discovery.api_versions(&address(call))),
        ["apis"] => Some(discovery.api_group_list()),
        ["api", version] => discovery.api_resource_list("", version),
        ["apis", group] => discovery.api_group(group),
        ["apis", group, version] if !group.is_empty() => discovery.api_resource_list(group, version),
        _ => None,
    };
    let lost = || match parts {
        // A group that is there lacks only this version.
        ["apis", group, _] if catalog.is_built_in(group) => Rejection::no_such_resource(),
        ["api", ..] => Rejection::no_such_resource(),
        _ => Rejection::NoSuchPage,
    };
    let document: Value = document.ok_or_else(lost)?;
    if call.method != Method::GET && !is_custom {
        return Err(Rejection::no_such_method());
    }
    let body = encoding::tree(wanted, &document)?;
    if !is_aggregated {
        return Ok(Answer::document(StatusCode::OK, wanted, body));
    }
    // Clients keep the large document and ask whether it is still right.
    let tag = etag(&body);
    let known = call.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let answer = match known {
        Some(known) if known == tag => Answer::empty(StatusCode::NOT_MODIFIED),
        _ => Answer::document(StatusCode::OK, wanted, body),
    };
    Ok(answer.with_header(ETAG, &tag).with_header(VARY, "Accept").with_header(CACHE_CONTROL, "public"))
}

/// Where the client has reached us.
fn address(call: &Call<'_>) -> String {
    let host = call.headers.get(hyper::header::HOST).and_then(|value| value.to_str().ok());
    host.unwrap_or("localhost").to_owned()
}
