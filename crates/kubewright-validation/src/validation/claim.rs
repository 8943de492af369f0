//! Validates PersistentVolumeClaims and the resource claims of pods.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use kubewright_core::{Quantity, Value};

use super::metadata::{annotations, labels, quoted};
use super::persistent_volume::access_modes;
use super::{capacity, number, selector, text};
use crate::data_source;

/// The access modes of a volume.
pub(super) const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The beta annotation that preceded `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Validates a PersistentVolumeClaim. Most of its spec is immutable.
pub(super) fn claim(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let mut causes = spec_causes("spec", value.get("spec").unwrap_or(&nothing));
    if let Some(old) = old {
        causes.extend(changes(value, old));
    }
    causes
}

fn changes(value: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let [now, before] = [value, old].map(|claim| text_map(claim.meta("annotations")).get(CLASS_ANNOTATION).cloned());
    let class =
        |claim: &Value| tree::get(claim, &["spec", "storageClassName"]).and_then(Value::as_str).map(str::to_owned);
    let (mut allowed, mut fixed) =
        (value.get("spec").cloned().unwrap_or_default(), old.get("spec").cloned().unwrap_or_default());
    let is_upgrade = class(old).is_none()
        && before.is_some()
        && class(value).as_deref() == before.as_deref()
        && (now.is_none() || now == before);
    if !is_upgrade && now != before {
        let field = format!("metadata.annotations[{CLASS_ANNOTATION}]");
        causes.push(StatusCause::invalid(field, quoted(now.as_deref().unwrap_or_default()), "field is immutable"));
    }
    // An update may set a missing storage class, and a missing volume name.
    let fits = before.is_none() || class(value).as_deref() == before.as_deref();
    if is_upgrade || class(old).is_none() && class(value).is_some() && fits {
        tree::remove(&mut allowed, &["storageClassName"]);
    }
    if tree::text(&fixed, &["volumeName"]).is_empty() {
        for spec in [&mut allowed, &mut fixed] {
            tree::remove(spec, &["volumeName"]);
        }
    }
    for spec in [&mut allowed, &mut fixed] {
        tree::remove(spec, &["volumeAttributesClassName"]);
    }
    if tree::text(value, &["status", "phase"]) == "Bound" {
        for spec in [&mut allowed, &mut fixed] {
            tree::remove(spec, &["resources", "requests", "storage"]);
        }
    }
    // Claims stored by older servers have only one of the two data source fields.
    data_source::synchronize(&mut fixed);
    if allowed != fixed {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                   bound claims";
        causes.push(StatusCause::forbidden("spec", why));
    }
    let amount = |claim: &Value, path: &[&str]| -> Quantity {
        tree::text(claim, path).parse().unwrap_or_else(|_| Quantity::from(0i64))
    };
    const REQUEST: [&str; 4] = ["spec", "resources", "requests", "storage"];
    let (size, kept) = (amount(value, &REQUEST), amount(old, &["status", "capacity", "storage"]));
    // An expansion may be reduced again, but not to the current capacity or below.
    if size < amount(old, &REQUEST) && size <= kept {
        let why = "field can not be less than status.capacity";
        causes.push(StatusCause::forbidden(REQUEST.join("."), why));
    }
    if tree::get(value, &["spec", "volumeMode"]) != tree::get(old, &["spec", "volumeMode"]) {
        let shown = tree::get(value, &["spec", "volumeMode"]).cloned().unwrap_or_default();
        causes.push(StatusCause::invalid("volumeMode", shown, "field is immutable"));
    }
    const ATTRIBUTES: [&str; 2] = ["spec", "volumeAttributesClassName"];
    if tree::get(old, &ATTRIBUTES).is_some() {
        let why = match tree::get(value, &ATTRIBUTES).map(|class| class.as_str().unwrap_or_default()) {
            None => Some("update from non-nil value to nil is forbidden"),
            Some("") => Some("update from non-nil value to an empty string is forbidden"),
            Some(_) => None,
        };
        causes.extend(why.map(|why| StatusCause::forbidden(ATTRIBUTES.join("."), why)));
    }
    causes
}

/// Validates the spec of a PersistentVolumeClaim.
pub(super) fn spec_causes(field: &str, spec: &Value) -> Vec<StatusCause> {
    let modes = access_modes(&format!("{field}.accessModes"), spec, "at least 1 access mode is required");
    let has_none = tree::items(spec, &["accessModes"]).is_empty();
    let chosen = spec.get("selector").into_iter();
    let chosen = chosen.flat_map(|chosen| selector::selector(&format!("{field}.selector"), chosen));
    let mut causes: Vec<_> =
        if has_none { modes.into_iter().chain(chosen).collect() } else { chosen.chain(modes).collect() };
    let storage_field = format!("{field}.resources[storage]");
    match capacity::amounts(spec, &["resources", "requests"]).into_iter().find(|(name, _)| name == "storage") {
        None => causes.push(StatusCause::required(storage_field, "")),
        Some((_, amount)) if amount.signum() <= 0 => {
            causes.push(StatusCause::invalid(storage_field, quoted(&amount.to_string()), "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = tree::text(spec, &["storageClassName"]);
    causes.extend(text::check_optional(&format!("{field}.storageClassName"), class, dns1123_subdomain));
    let mode = spec.get("volumeMode");
    causes.extend(text::optional_choice(&format!("{field}.volumeMode"), mode, &["Block", "Filesystem"]));
    causes.extend(data_sources(field, spec));
    let class = tree::text(spec, &["volumeAttributesClassName"]);
    causes.extend(text::check_optional(&format!("{field}.volumeAttributesClassName"), class, dns1123_subdomain));
    causes
}

/// Validates `dataSource` and `dataSourceRef`.
fn data_sources(field: &str, spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (plain, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    for (name, source) in [("dataSource", plain), ("dataSourceRef", reference)] {
        let Some(source) = source else { continue };
        let field = format!("{field}.{name}");
        causes.extend(text::missing(&field, source, &["name", "kind"]));
        let (group, kind) = (tree::text(source, &["apiGroup"]), tree::text(source, &["kind"]));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            causes.push(StatusCause::invalid(field.as_str(), quoted(kind), why));
        }
        causes.extend(text::check_optional(&format!("{field}.apiGroup"), group, dns1123_subdomain));
        let namespace = tree::text(source, &["namespace"]);
        causes.extend(text::check_optional(&format!("{field}.namespace"), namespace, dns1123_label));
    }
    let (Some(plain), Some(reference)) = (plain, reference) else { return causes };
    let same = |part: &str| plain.get(part) == reference.get(part);
    let why = if !tree::text(reference, &["namespace"]).is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if !["apiGroup", "kind", "name"].into_iter().all(same) {
        "must match dataSourceRef"
    } else {
        return causes;
    };
    // The real server prints a Go field path here, which renders as an empty structure.
    causes.push(StatusCause::invalid(field, "{}", why));
    causes
}

/// Validates the status of a PersistentVolumeClaim.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    const STEPS: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let mut causes = Vec::new();
    if tree::items(value, &["spec", "accessModes"]).is_empty() {
        causes.push(StatusCause::required("Spec.accessModes", ""));
    }
    for (name, amount) in capacity::amounts(value, &["status", "capacity"]) {
        if amount.value() < 0 {
            let why = "must be a valid resource quantity";
            causes.push(StatusCause::invalid(format!("status.capacity[{name}]"), amount.value(), why));
        }
    }
    const STATUSES: &str = "status.allocatedResourceStatus";
    for (name, step) in text_map(tree::get(value, &["status", "allocatedResourceStatuses"])).iter() {
        causes.extend(resource_key(STATUSES, name));
        if !STEPS.contains(&step.as_str()) {
            causes.push(StatusCause::not_supported(STATUSES, quoted(name), &STEPS));
        }
    }
    for (name, amount) in capacity::amounts(value, &["status", "allocatedResources"]) {
        let complaints = resource_key("status.allocatedResources", &name);
        let field = format!("status.allocatedResources[{name}]");
        if complaints.is_empty() && amount.value() < 0 {
            causes.push(StatusCause::invalid(field, amount.value(), "must be a valid resource quantity"));
        }
        causes.extend(complaints);
    }
    causes
}

fn resource_key(field: &str, name: &str) -> Vec<StatusCause> {
    let causes = text::check(field, name, qualified_name);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if causes.is_empty() && is_native {
        return number::one_of(field, name, &["storage"]).into_iter().collect();
    }
    causes
}

/// Validates the claim template of an ephemeral volume.
pub(super) fn template(field: &str, template: Option<&Value>) -> Vec<StatusCause> {
    let Some(template) = template else { return vec![StatusCause::required(field, "")] };
    let nothing = Value::default();
    let metadata = template.get("metadata").unwrap_or(&nothing);
    let mut causes = template_metadata(&format!("{field}.metadata"), metadata);
    causes.extend(spec_causes(&format!("{field}.spec"), template.get("spec").unwrap_or(&nothing)));
    causes
}

/// Validates the metadata of a claim template. Only labels and annotations are allowed.
pub(super) fn template_metadata(field: &str, metadata: &Value) -> Vec<StatusCause> {
    let mut causes = annotations(&format!("{field}.annotations"), metadata.get("annotations"));
    causes.extend(labels(&format!("{field}.labels"), metadata.get("labels")));
    let others = metadata.as_object().into_iter().flat_map(|fields| fields.keys());
    let others = others.filter(|name| !["annotations", "labels", "creationTimestamp"].contains(&name.as_str()));
    causes.extend(others.map(|name| StatusCause::forbidden(format!("{field}.{name}"), "cannot be set")));
    causes
}

/// Validates the resource claims of a pod.
pub(super) fn pod_claims(field: &str, claims: &[Value]) -> Vec<StatusCause> {
    const FIELDS: [(&str, &str, &str); 3] = [
        ("Name", "name", "\"\""),
        ("ResourceClaimName", "resourceClaimName", "null"),
        ("ResourceClaimTemplateName", "resourceClaimTemplateName", "null"),
    ];
    let mut causes = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let (field, name) = (format!("{field}[{index}]"), tree::text(claim, &["name"]));
        if !name.is_empty() && claims[..index].iter().any(|other| tree::text(other, &["name"]) == name) {
            causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        } else {
            causes.extend(text::required(&format!("{field}.name"), name, dns1123_label));
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let named = sources.map(|part| claim.get(part).and_then(Value::as_str));
        let why = match named {
            [Some(_), Some(_)] => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            [None, None] => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        causes.extend(why.map(|why| StatusCause::invalid(field.as_str(), text::internal(claim, &FIELDS), why)));
        for (part, name) in sources.into_iter().zip(named) {
            let name = name.into_iter();
            causes.extend(name.flat_map(|name| text::check(&format!("{field}.{part}"), name, dns1123_subdomain)));
        }
    }
    causes
}

/// Validates the references of a container to the resource claims of its pod.
pub(super) fn names(field: &str, claims: &[Value], spec: &Value) -> Vec<StatusCause> {
    let pod_claim_names = tree::items(spec, &["resourceClaims"]).iter().map(|claim| tree::text(claim, &["name"]));
    let mut known: Vec<&str> = pod_claim_names.filter(|name| !name.is_empty()).collect();
    known.sort_unstable();
    let key = |claim: &Value| (tree::text(claim, &["name"]).to_owned(), tree::text(claim, &["request"]).to_owned());
    let mut causes = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let (field, name) = (format!("{field}[{index}]"), tree::text(claim, &["name"]));
        if name.is_empty() {
            causes.push(StatusCause::required(field, ""));
            continue;
        }
        if claims[..index].iter().any(|other| key(other) == key(claim)) {
            causes.push(StatusCause::duplicate(field.as_str(), quoted(name)));
        }
        if !known.contains(&name) {
            let mut cause = StatusCause::not_found(field, quoted(name));
            let names = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            let why = format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{names}");
            cause.message = Some(why.into());
            causes.push(cause);
        }
    }
    causes
}
