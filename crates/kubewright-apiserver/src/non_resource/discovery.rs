//! The discovery endpoints.

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use hyper::{Method, StatusCode};
use kubewright_core::Value;

use crate::call::Call;
use crate::http::ApiResponse;
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::accept::{Form, Format, Offer};
use kubewright_resources::catalog::Catalog;
use kubewright_resources::discovery::{DiscoveryDocument, etag};

/// Handles a request below `/api` or `/apis`.
pub(super) fn answer(call: &Call<'_>, parts: &[&str]) -> Result<ApiResponse, Rejection> {
    let catalog = call.registry.catalog();
    let discovery = catalog.discovery();
    let is_all = matches!(parts, ["api"] | ["apis"]);
    // Groups of custom resources have no routes that could reject a method.
    let is_custom = matches!(parts, ["apis", group, ..] if !catalog.is_built_in(group));
    let offer = match parts {
        _ if is_all => Offer::Discovery,
        ["apis", _, _] if is_custom => Offer::CustomGroup,
        _ => Offer::Plain,
    };
    let wanted = Wanted::negotiate(call.headers, call.query, offer)?;
    if is_all && wanted.form == Form::AggregatedDiscovery {
        return aggregated(call, &catalog, wanted, parts == ["api"]);
    }
    let document = match parts {
        ["api"] => Some(discovery.api_versions(&address(call))),
        ["apis"] => Some(discovery.api_group_list()),
        ["api", version] => discovery.api_resource_list("", version),
        ["apis", group] => discovery.api_group(group),
        ["apis", group, version] if !group.is_empty() => discovery.api_resource_list(group, version),
        _ => None,
    };
    let lost = || match parts {
        // The group exists, but not this version.
        ["apis", group, _] if catalog.serves_built_in(group) => Rejection::no_such_resource(),
        ["api", ..] => Rejection::no_such_resource(),
        _ => Rejection::NoSuchPage,
    };
    let document = document.ok_or_else(lost)?;
    if call.method != Method::GET && !is_custom {
        return Err(Rejection::no_such_method());
    }
    Ok(ApiResponse::document(StatusCode::OK, wanted, encode(wanted, &document)?))
}

/// Responds with aggregated discovery of the core group or of all others.
fn aggregated(call: &Call<'_>, catalog: &Catalog, wanted: Wanted, is_core: bool) -> Result<ApiResponse, Rejection> {
    if call.method != Method::GET {
        return Err(Rejection::no_such_method());
    }
    let make = || -> Result<(Bytes, String), Rejection> {
        let discovery = catalog.discovery();
        let document = if is_core { discovery.aggregated_core() } else { discovery.aggregated_groups() };
        let body = encode(wanted, &document)?;
        let tag = etag(&body);
        Ok((body, tag))
    };
    // Cache the form that nearly all clients request.
    let cached = &catalog.aggregated[usize::from(is_core)];
    let (body, tag) = match cached.get() {
        _ if wanted.format != Format::Json || wanted.pretty => make()?,
        Some(document) => document.clone(),
        None => {
            let document = make()?;
            cached.get_or_init(|| document).clone()
        }
    };
    // Clients cache the large document and revalidate it.
    let known = call.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let answer = match known {
        Some(known) if known == tag => ApiResponse::empty(StatusCode::NOT_MODIFIED),
        _ => ApiResponse::document(StatusCode::OK, wanted, body),
    };
    Ok(answer.with_header(ETAG, &tag).with_header(VARY, "Accept").with_header(CACHE_CONTROL, "public"))
}

fn encode(wanted: Wanted, document: &DiscoveryDocument) -> Result<Bytes, Rejection> {
    match wanted.format {
        Format::Protobuf => Ok(document.to_protobuf().into()),
        Format::Json if !wanted.pretty => Ok(document.to_json().into()),
        Format::Json | Format::Yaml => {
            let document = Value::from_json(&document.to_json()).expect("the writer writes JSON");
            encoding::tree(wanted, &document)
        }
    }
}

/// The host by which the client reached the server.
fn address(call: &Call<'_>) -> String {
    let host = call.headers.get(hyper::header::HOST).and_then(|value| value.to_str().ok());
    host.unwrap_or("localhost").to_owned()
}
