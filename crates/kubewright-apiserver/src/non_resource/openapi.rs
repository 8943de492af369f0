//! The OpenAPI endpoints. Documents are built on demand and cached.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use kubewright_core::protobuf::Encoder;
use kubewright_core::{GroupVersion, Value};

use crate::call::Call;
use crate::http::ApiResponse;
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::object::tree;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::{Catalog, Resource, ServedVersion};
use kubewright_resources::openapi::{self, OpenApiDocument};

/// Handles a request below `/openapi`.
pub(super) fn answer(call: &Call<'_>, parts: &[&str]) -> Result<ApiResponse, Rejection> {
    let catalog = call.registry.catalog();
    match parts {
        ["v3"] => Ok(ApiResponse::text(StatusCode::OK, index(&catalog).to_string())),
        ["v3", path @ ..] => Ok(document(call, &catalog, path)),
        ["v2"] => version_2(call, &catalog),
        _ => Err(Rejection::NoSuchPage),
    }
}

/// The index of documents. The hashes cover the inputs of the documents, so no document is built
/// for them.
fn index(catalog: &Catalog) -> Value {
    let documents: Vec<(String, &str)> = catalog
        .groups()
        .flat_map(|(group, versions)| {
            let versions = versions.into_iter();
            versions.map(move |(version, served)| (path(group, version), hash(group, version, served)))
        })
        .collect();
    openapi::index(documents.iter().map(|(path, hash)| (path.as_str(), *hash)))
}

fn document(call: &Call<'_>, catalog: &Catalog, path: &[&str]) -> ApiResponse {
    let (group, version) = match path {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return ApiResponse::empty(StatusCode::NOT_FOUND),
    };
    let Some(served) = catalog.version(group, version) else { return ApiResponse::empty(StatusCode::NOT_FOUND) };
    if !takes(call, "json") {
        return ApiResponse::empty(StatusCode::NOT_ACCEPTABLE).with_header(VARY, "Accept");
    }
    let hash = hash(group, version, served);
    let tag = format!("\"{hash}\"");
    let (answer, keep) = match call.query.get("hash").filter(|asked| !asked.is_empty()) {
        Some(asked) if *asked != *hash => {
            let place = openapi::place(&self::path(group, version), hash);
            let answer = ApiResponse::empty(StatusCode::MOVED_PERMANENTLY).with_header(LOCATION, &place);
            (answer, "no-cache, private")
        }
        asked => {
            let answer = if is_known(call, &tag) {
                ApiResponse::empty(StatusCode::NOT_MODIFIED)
            } else {
                let body = served.document.get_or_init(|| make(group, version, served).to_json().into());
                ApiResponse::document(StatusCode::OK, Wanted::JSON, body.clone())
            };
            // The content of a URL with a hash never changes.
            (answer, if asked.is_some() { "public, immutable" } else { "no-cache, private" })
        }
    };
    answer.with_header(ETAG, &tag).with_header(VARY, "Accept").with_header(CACHE_CONTROL, keep)
}

/// Whether the client has this document cached.
fn is_known(call: &Call<'_>, tag: &str) -> bool {
    let known = call.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// Whether the client accepts a media type.
fn takes(call: &Call<'_>, kind: &str) -> bool {
    let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    accept.is_empty()
        || clauses.any(|clause| matches!(clause, "*/*" | "application/*") || clause == format!("application/{kind}"))
}

/// Responds with the v2 document, for clients that accept JSON.
fn version_2(call: &Call<'_>, catalog: &Catalog) -> Result<ApiResponse, Rejection> {
    let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("proto-openapi.spec.v2") {
        let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return Ok(ApiResponse::binary(kind, empty_version_2()).with_header(VARY, "Accept"));
    }
    if !takes(call, "json") {
        return Ok(ApiResponse::empty(StatusCode::NOT_ACCEPTABLE).with_header(VARY, "Accept"));
    }
    let (body, tag) = match catalog.openapi_v2.get() {
        Some(document) => document,
        None => {
            let document = make_version_2(catalog)?;
            catalog.openapi_v2.get_or_init(|| document)
        }
    };
    let answer = if is_known(call, tag) {
        ApiResponse::empty(StatusCode::NOT_MODIFIED)
    } else {
        ApiResponse::document(StatusCode::OK, Wanted::JSON, body.clone())
    };
    Ok(answer.with_header(ETAG, tag).with_header(VARY, "Accept"))
}

/// Builds the v2 document and its tag.
fn make_version_2(catalog: &Catalog) -> Result<(Bytes, String), Rejection> {
    let versions = || {
        let groups = catalog.groups();
        groups.flat_map(|(group, versions)| versions.into_iter().map(move |(version, served)| (group, version, served)))
    };
    let hashes: String = versions().map(|(group, version, served)| hash(group, version, served)).collect();
    let documents: Vec<Value> =
        versions().map(|(group, version, served)| make(group, version, served).to_value()).collect();
    let body = encoding::tree(Wanted::JSON, &openapi::v2(&documents))?;
    Ok((body, format!("\"{}\"", openapi::hash(hashes.as_bytes()))))
}

/// A v2 document without definitions, for clients that request protobuf. They look there for kinds
/// that they have not found elsewhere, and cope with missing ones.
fn empty_version_2() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder { out: &mut out };
    encoder.bytes(1, b"2.0");
    encoder.delimited(2, |info| {
        info.bytes(1, b"Kubernetes");
        info.bytes(2, b"v1.36.0");
    });
    encoder.delimited(8, |_| {});
    out
}

fn make(group: &str, version: &str, served: &ServedVersion) -> OpenApiDocument {
    let mut document = OpenApiDocument::new(GroupVersion::new(group, version));
    for resource in served.resources().values() {
        let served = resource.to_served();
        match &resource.custom {
            None => document.add(&served),
            Some(custom) => {
                let schema = selectable_schema(&custom.version);
                document.add_custom(&served, &resource.list_kind, schema.as_ref());
            }
        }
    }
    document
}

/// The schema of a definition's version with its selectable fields.
fn selectable_schema(version: &Value) -> Option<Value> {
    let mut schema = tree::get(version, &["schema", "openAPIV3Schema"])?.clone();
    let fields = tree::items(version, &["selectableFields"]);
    if !fields.is_empty() {
        let path = |field: &Value| tree::text(field, &["jsonPath"]).trim_start_matches('.').to_owned();
        let fields = fields.iter().map(|field| tree::map([("fieldPath", path(field).into())]));
        let fields: Vec<Value> = fields.collect();
        tree::set(&mut schema, &["x-kubernetes-selectable-fields"], fields);
    }
    Some(schema)
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// A hash that changes with the document. Built-in documents change with the program, others with
/// their definitions.
fn hash<'v>(group: &str, version: &str, served: &'v ServedVersion) -> &'v str {
    served.document_hash.get_or_init(|| {
        let mut source = format!("{} {group}/{version}", env!("CARGO_PKG_VERSION"));
        for resource in served.resources().values() {
            let Resource { plural, kind, short_names, categories, .. } = &**resource;
            source += &format!(" {plural} {kind} {short_names:?} {categories:?}");
            if let Some(custom) = &resource.custom {
                source += &custom.version.to_string();
            }
        }
        openapi::hash(source.as_bytes())
    })
}
