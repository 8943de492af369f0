//! Validates object metadata.

use std::borrow::Cow;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Str, Value};

use crate::ValidatedResource;

/// Maximum total size of the annotations, in bytes.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Validates the metadata of a new object.
pub(super) fn create(resource: &ValidatedResource<'_>, value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (name, prefix) = (value.name(), value.meta_text("generateName"));
    if !prefix.is_empty() {
        let complaints = name_complaints(resource, &masked(prefix));
        causes.extend(complaints.iter().map(|why| StatusCause::invalid("metadata.generateName", quoted(prefix), why)));
    }
    if name.is_empty() {
        causes.push(StatusCause::required("metadata.name", "name or generateName is required"));
    } else {
        let complaints = name_complaints(resource, name);
        causes.extend(complaints.iter().map(|why| StatusCause::invalid("metadata.name", quoted(name), why)));
    }
    causes.extend(any(resource, value));
    causes
}

/// Validates the metadata of an updated object.
pub(super) fn update(resource: &ValidatedResource<'_>, old: &Value, new: &Value) -> Vec<StatusCause> {
    let mut causes = any(resource, new);
    if old.is_being_deleted() {
        let before = old.finalizers();
        let added: Vec<Str> = new.finalizers().into_iter().filter(|one| !before.contains(one)).collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|one| quoted(one)).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

fn any(resource: &ValidatedResource<'_>, value: &Value) -> Vec<StatusCause> {
    let mut causes = labels("metadata.labels", value.meta("labels"));
    causes.extend(annotations("metadata.annotations", value.meta("annotations")));
    for (index, finalizer) in value.finalizers().iter().enumerate() {
        let complaints = qualified_name(finalizer);
        causes.extend(complaints.iter().map(|why| StatusCause::invalid("metadata.finalizers", quoted(finalizer), why)));
        let is_lax = resource.is_custom() || resource.group == "apiextensions.k8s.io";
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()) && !is_lax {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(StatusCause::invalid(format!("metadata.finalizers[{index}]"), quoted(finalizer), why));
        }
    }
    let has = |name: &str| value.finalizers().iter().any(|finalizer| finalizer == name);
    if has(STANDARD_FINALIZERS[0]) && has(STANDARD_FINALIZERS[2]) {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        let shown = tree::list(value.finalizers().iter().map(|finalizer| finalizer.as_str()));
        causes.push(StatusCause::invalid("metadata.finalizers", shown, why));
    }
    causes.extend(owners(value));
    causes
}

/// Validates annotations.
pub(super) fn annotations(field: &str, annotations: Option<&Value>) -> Vec<StatusCause> {
    let annotations = text_map(annotations);
    let mut causes = Vec::new();
    for (key, _) in annotations.iter() {
        let complaints = qualified_name(&key.to_lowercase());
        causes.extend(complaints.iter().map(|why| StatusCause::invalid(field, quoted(key), why)));
    }
    if annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > ANNOTATIONS_MAX {
        causes.push(StatusCause::too_long(field, ANNOTATIONS_MAX));
    }
    causes
}

/// Validates labels.
pub(super) fn labels(field: &str, labels: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (key, value) in text_map(labels).iter() {
        causes.extend(qualified_name(key).iter().map(|why| StatusCause::invalid(field, quoted(key), why)));
        causes.extend(label_value(value).iter().map(|why| StatusCause::invalid(field, quoted(value), why)));
    }
    causes
}

fn owners(value: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut causes = Vec::new();
    let mut controller: Option<String> = None;
    for owner in value.owner_references() {
        for (field, problem) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if tree::text(owner, &[field]).is_empty() {
                causes.push(StatusCause::invalid(format!("{FIELD}.{field}"), "\"\"", problem));
            }
        }
        let (kind, name) = (tree::text(owner, &["kind"]), tree::text(owner, &["name"]));
        if (tree::text(owner, &["apiVersion"]), kind) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(StatusCause::invalid(FIELD, shown_owner(owner), why));
        }
        if !tree::is_true(owner, &["controller"]) {
            continue;
        }
        let this = format!("{kind}/{name}");
        let Some(first) = &controller else {
            controller = Some(this);
            continue;
        };
        let why = format!(
            "Only one reference can have Controller set to true. \
             Found \"true\" in references for {first} and {this}"
        );
        let shown: Vec<String> = value.owner_references().iter().map(shown_owner).collect();
        causes.push(StatusCause::invalid(FIELD, format!("[{}]", shown.join(",")), &why));
    }
    causes
}

/// An owner reference in the form of error messages, with its fields in API order.
fn shown_owner(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let shown = fields.iter().filter_map(|field| Some(format!("{field:?}:{}", owner.get(field)?)));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

/// A valid name for checking `generateName`: a trailing dash is allowed there.
fn masked(prefix: &str) -> Cow<'_, str> {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let kept = rest.char_indices().next_back().map_or(0, |(last, _)| last);
            Cow::Owned(format!("{}a", &rest[..kept]))
        }
        _ => Cow::Borrowed(prefix),
    }
}

fn name_complaints(resource: &ValidatedResource<'_>, name: &str) -> Vec<String> {
    if resource.is_custom() {
        return subdomain(name);
    }
    match (resource.group, resource.plural) {
        ("", "namespaces") => with_character_limits(dns1123_label(name)),
        ("apps", "statefulsets") => with_character_limits(dns1123_label(name)),
        ("networking.k8s.io", "ipaddresses") => super::address::name(name),
        ("", "services") if name.contains('.') => vec!["must not contain dots".to_owned()],
        ("", "services") => with_character_limits(dns1123_label(name)),
        // These names only need to be usable as a path segment.
        ("rbac.authorization.k8s.io", _)
        | ("", "events")
        | ("policy", "poddisruptionbudgets")
        | ("certificates.k8s.io", "certificatesigningrequests")
        | ("apiregistration.k8s.io", "apiservices") => path_segment(name),
        _ => subdomain(name),
    }
}

fn subdomain(name: &str) -> Vec<String> {
    with_character_limits(dns1123_subdomain(name))
}

/// Messages about object names measure in characters, as those of the real server.
fn with_character_limits(complaints: Vec<String>) -> Vec<String> {
    complaints.into_iter().map(|complaint| complaint.replace(" bytes", " characters")).collect()
}

/// Returns the problems of a name that must be a path segment and nothing more.
pub fn path_segment(name: &str) -> Vec<String> {
    let complaint = match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        name => ['/', '%'].into_iter().find(|c| name.contains(*c)).map(|c| format!("may not contain '{c}'")),
    };
    complaint.into_iter().collect()
}

/// A quoted text, as in error messages.
pub(super) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
