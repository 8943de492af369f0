//! OpenAPI: the index of documents, and the documents themselves, made when they are asked for.

use hyper::StatusCode;
use hyper::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use kubewright_core::protobuf::Encoder;
use kubewright_core::{GroupVersion, Value};

use crate::catalog::{Catalog, Resources};
use crate::encoding::{self, Wanted};
use crate::http::Answer;
use crate::object::tree;
use crate::openapi::{self, Document};
use crate::rejection::Rejection;
use crate::service::Call;

/// Answers a request below `/openapi`.
pub(super) fn answer(call: &Call<'_>, parts: &[&str]) -> Result<Answer, Rejection> {
    let catalog = call.registry.catalog();
    match parts {
        ["v3"] => Ok(Answer::text(StatusCode::OK, index(&catalog).to_string())),
        ["v3", path @ ..] => Ok(document(call, &catalog, path)),
        ["v2"] => version_2(call, &catalog),
        _ => Err(Rejection::NoSuchPage),
    }
}

/// Where each document is. The hashes are of what documents are made from, so that none has to be made for them.
fn index(catalog: &Catalog) -> Value {
    let documents: Vec<(String, String)> = catalog
        .groups()
        .flat_map(|(group, versions)| {
            let versions = versions.into_iter();
            versions.map(move |(version, resources)| (path(group, version), hash(group, version, resources)))
        })
        .collect();
    openapi::index(documents.iter().map(|(path, hash)| (path.as_str(), hash.as_str())))
}

fn document(call: &Call<'_>, catalog: &Catalog, path: &[&str]) -> Answer {
    let (group, version) = match path {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Answer::empty(StatusCode::NOT_FOUND),
    };
    let Some(resources) = catalog.resources(group, version) else { return Answer::empty(StatusCode::NOT_FOUND) };
    if !takes(call, "json") {
        return Answer::empty(StatusCode::NOT_ACCEPTABLE).with_header(VARY, "Accept");
    }
    let hash = hash(group, version, resources);
    let tag = format!("\"{hash}\"");
    let (answer, keep) = match call.query.get("hash").filter(|asked| !asked.is_empty()) {
        Some(asked) if *asked != hash => {
            let place = openapi::place(&self::path(group, version), &hash);
            let answer = Answer::empty(StatusCode::MOVED_PERMANENTLY).with_header(LOCATION, &place);
            (answer, "no-cache, private")
        }
        asked => {
            let answer = match is_known(call, &tag) {
                true => Answer::empty(StatusCode::NOT_MODIFIED),
                false => {
                    let body = make(group, version, resources).to_json();
                    Answer::document(StatusCode::OK, Wanted::JSON, body.into())
                }
            };
            // Who asks by the hash will never get anything else under it.
            (answer, if asked.is_some() { "public, immutable" } else { "no-cache, private" })
        }
    };
    answer.with_header(ETAG, &tag).with_header(VARY, "Accept").with_header(CACHE_CONTROL, keep)
}

/// Whether the client has this document already.
fn is_known(call: &Call<'_>, tag: &str) -> bool {
    let known = call.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// Whether the client takes this kind of application's data.
fn takes(call: &Call<'_>, kind: &str) -> bool {
    let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    accept.is_empty()
        || clauses.any(|clause| matches!(clause, "*/*" | "application/*") || clause == format!("application/{kind}"))
}

/// All documents as one in the old form, for those who read it as JSON.
fn version_2(call: &Call<'_>, catalog: &Catalog) -> Result<Answer, Rejection> {
    let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("proto-openapi.spec.v2") {
        let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return Ok(Answer::binary(kind, empty_version_2()).with_header(VARY, "Accept"));
    }
    if !takes(call, "json") {
        return Ok(Answer::empty(StatusCode::NOT_ACCEPTABLE).with_header(VARY, "Accept"));
    }
    let hashes = catalog.groups().flat_map(|(group, versions)| {
        versions.into_iter().map(move |(version, resources)| hash(group, version, resources))
    });
    let tag = format!("\"{}\"", openapi::hash(hashes.collect::<String>().as_bytes()));
    let tagged = |answer: Answer| answer.with_header(ETAG, &tag).with_header(VARY, "Accept");
    if is_known(call, &tag) {
        return Ok(tagged(Answer::empty(StatusCode::NOT_MODIFIED)));
    }
    let documents: Vec<Value> = catalog
        .groups()
        .flat_map(|(group, versions)| {
            versions.into_iter().map(move |(version, resources)| make(group, version, resources).to_value())
        })
        .collect();
    let body = encoding::tree(Wanted::JSON, &openapi::v2(&documents))?;
    Ok(tagged(Answer::document(StatusCode::OK, Wanted::JSON, body)))
}

/// A document without definitions, for clients that read the old form as protobuf: they look there for kinds that they
/// have not found elsewhere, and take it well that these are not there either.
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

fn make(group: &str, version: &str, resources: &Resources) -> Document {
    let mut document = Document::new(GroupVersion::new(group, version));
    for resource in resources.values() {
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

/// The schema of a version of a definition, with the fields by which its objects can be selected.
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

/// Changes when the document does: built-in ones with the program, others with their definitions.
fn hash(group: &str, version: &str, resources: &Resources) -> String {
    let mut source = format!("{} {group}/{version}", env!("CARGO_PKG_VERSION"));
    for resource in resources.values() {
        source +=
            &format!(" {} {} {:?} {:?}", resource.plural, resource.kind, resource.short_names, resource.categories);
        if let Some(custom) = &resource.custom {
            source += &custom.version.to_string();
        }
    }
    openapi::hash(source.as_bytes())
}
