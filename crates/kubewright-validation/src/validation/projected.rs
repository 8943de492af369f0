//! Validates ConfigMap, Secret, downward API and projected volumes.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{environment, selector, text};

/// Pod fields that files can expose.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Minimum token lifetime, in seconds.
const TOKEN_MIN: i64 = 600;

/// Validates a ConfigMap or Secret volume.
pub(super) fn keys(field: &str, kind: &str, source: &Value) -> Vec<StatusCause> {
    let name = if kind == "secret" { "secretName" } else { "name" };
    let mut causes = text::missing(field, source, &[name]);
    causes.extend(text::file_mode(&format!("{field}.defaultMode"), tree::int(source, &["defaultMode"])));
    causes.extend(items(field, source));
    causes
}

fn items(field: &str, source: &Value) -> Vec<StatusCause> {
    let items = tree::items(source, &["items"]).iter().enumerate();
    items.flat_map(|(index, item)| self::item(&format!("{field}.items[{index}]"), item)).collect()
}

fn item(field: &str, item: &Value) -> Vec<StatusCause> {
    let mut causes = text::missing(field, item, &["key", "path"]);
    causes.extend(text::unreserved(&format!("{field}.path"), tree::text(item, &["path"])));
    causes.extend(text::file_mode(&format!("{field}.mode"), tree::int(item, &["mode"])));
    causes
}

/// Validates a downward API volume.
pub(super) fn downward(field: &str, source: &Value) -> Vec<StatusCause> {
    let mode = text::file_mode(&format!("{field}.defaultMode"), tree::int(source, &["defaultMode"]));
    let files = tree::items(source, &["items"]).iter();
    mode.into_iter().chain(files.flat_map(|file| self::file(field, file))).collect()
}

/// Validates a downward API file. As in the real server, the path omits the index.
fn file(field: &str, file: &Value) -> Vec<StatusCause> {
    let mut causes = text::missing(field, file, &["path"]);
    causes.extend(text::unreserved(&format!("{field}.path"), tree::text(file, &["path"])));
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(reference), other) => {
            causes.extend(environment::field_reference(&format!("{field}.fieldRef"), reference, &FIELDS));
            if other.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.push(StatusCause::invalid(field, quoted("resource"), why));
            }
        }
        (None, Some(reference)) => {
            causes.extend(environment::amount_reference(&format!("{field}.resourceFieldRef"), reference, true));
        }
        (None, None) => {
            causes.push(StatusCause::required(field, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    causes.extend(text::file_mode(&format!("{field}.mode"), tree::int(file, &["mode"])));
    causes
}

/// Validates a projected volume.
pub(super) fn projected(field: &str, source: &Value) -> Vec<StatusCause> {
    let mode = text::file_mode(&format!("{field}.defaultMode"), tree::int(source, &["defaultMode"]));
    let mut causes: Vec<_> = mode.into_iter().collect();
    let mut paths: HashSet<String> = HashSet::new();
    for (index, source) in tree::items(source, &["sources"]).iter().enumerate() {
        let inner = format!("{field}.sources[{index}]");
        for kind in ["secret", "configMap"] {
            let Some(object) = source.get(kind) else { continue };
            let name = tree::text(object, &["name"]);
            causes.extend(text::missing(&format!("{inner}.{kind}"), object, &["name"]));
            for (index, item) in tree::items(object, &["items"]).iter().enumerate() {
                causes.extend(self::item(&format!("{inner}.{kind}.items[{index}]"), item));
                causes.extend(unique(field, tree::text(item, &["path"]), name, &mut paths));
            }
        }
        for file in source.get("downwardAPI").map_or(&[][..], |fields| tree::items(fields, &["items"])) {
            causes.extend(self::file(&format!("{inner}.downwardAPI"), file));
            let path = tree::text(file, &["path"]);
            causes.extend(unique(field, path, path, &mut paths));
        }
        if let Some(token) = source.get("serviceAccountToken") {
            causes.extend(self::token(field, &format!("{inner}.serviceAccountToken"), token));
        }
        if let Some(bundle) = source.get("clusterTrustBundle") {
            causes.extend(self::bundle(&format!("{inner}.clusterTrustBundlePEM"), bundle));
            let path = tree::text(bundle, &["path"]);
            causes.extend(unique(field, path, path, &mut paths));
        }
        if source.as_object().is_some_and(|kinds| kinds.len() > 1) {
            causes.push(StatusCause::forbidden(inner, "may not specify more than 1 volume type"));
        }
    }
    causes
}

fn unique(field: &str, path: &str, shown: &str, paths: &mut HashSet<String>) -> Option<StatusCause> {
    if paths.insert(path.to_owned()) || path.is_empty() {
        return None;
    }
    Some(StatusCause::invalid(field, quoted(shown), "conflicting duplicate paths"))
}

/// Validates a token source. Its path is reported at the volume, its lifetime at the source.
fn token(field: &str, inner: &str, token: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if let Some(seconds) = tree::int(token, &["expirationSeconds"]) {
        causes.extend(token_life(&format!("{inner}.expirationSeconds"), seconds));
    }
    match tree::text(token, &["path"]) {
        "" => causes.push(StatusCause::required(format!("{field}.path"), "")),
        path => causes.extend(text::unreserved(&format!("{field}.path"), path)),
    }
    causes
}

/// Validates a token lifetime.
pub(super) fn token_life(field: &str, seconds: i64) -> Option<StatusCause> {
    let why = match seconds {
        seconds if seconds < TOKEN_MIN => "may not specify a duration less than 10 minutes",
        seconds if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
        _ => return None,
    };
    Some(StatusCause::invalid(field, seconds, why))
}

fn bundle(field: &str, bundle: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| bundle.get(part).and_then(Value::as_str);
    let mut causes = Vec::new();
    match (text_of("name"), text_of("signerName")) {
        (Some(_), Some(_)) => {
            causes.push(StatusCause::invalid(field, bundle, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            let inner = format!("{field}.name");
            if name.is_empty() {
                causes.push(StatusCause::required(inner.as_str(), "must be a valid object name"));
            }
            let plain = name.rsplit(':').next().unwrap_or(name);
            let complaints = dns1123_subdomain(plain);
            causes.extend(complaints.iter().map(|why| {
                let why = format!("not a valid clustertrustbundlename: {why}");
                StatusCause::invalid(inner.as_str(), quoted(name), &why)
            }));
            if let Some(chosen) = bundle.get("labelSelector") {
                let why = "labelSelector must be unset if name is specified";
                causes.push(StatusCause::invalid(format!("{field}.labelSelector"), chosen, why));
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                causes.push(StatusCause::required(format!("{field}.signerName"), "must be a valid signer name"));
            }
            let chosen = bundle.get("labelSelector").into_iter();
            causes.extend(chosen.flat_map(|chosen| selector::selector(&format!("{field}.labelSelector"), chosen)));
        }
        (None, None) => causes.push(StatusCause::required(field, "either name or signerName must be specified")),
    }
    causes.extend(text::missing(field, bundle, &["path"]));
    causes.extend(text::unreserved(&format!("{field}.path"), tree::text(bundle, &["path"])));
    causes
}
