//! Validates environment variables of containers, and references to pod fields.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use kubewright_core::{Quantity, Value, tree};

use super::metadata::quoted;
use super::{config, number, text};

/// Pod fields that environment variables can reference.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Pod fields that some kinds of references support.
const KNOWN_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.host",
    "status.phase",
];
/// Container resources that a reference can expose.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const UNITS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates an environment variable.
pub(super) fn variable(field: &str, variable: &Value) -> Vec<StatusCause> {
    let name = tree::text(variable, &["name"]);
    let mut causes = text::required(&format!("{field}.name"), name, name_complaints);
    let Some(from) = variable.get("valueFrom") else { return causes };
    let field = format!("{field}.valueFrom");
    if let Some(reference) = from.get("fieldRef") {
        causes.extend(field_reference(&format!("{field}.fieldRef"), reference, &FIELDS));
    }
    if let Some(reference) = from.get("resourceFieldRef") {
        causes.extend(amount_reference(&format!("{field}.resourceFieldRef"), reference, false));
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = from.get(kind) else { continue };
        let name = tree::text(reference, &["name"]);
        causes.extend(text::check(&format!("{field}.{kind}.name"), name, dns1123_subdomain));
        let key = tree::text(reference, &["key"]);
        causes.extend(text::required(&format!("{field}.{kind}.key"), key, config::key_complaints));
    }
    if let Some(file) = from.get("fileKeyRef") {
        causes.extend(file_key(&format!("{field}.fileKeyRef"), file));
    }
    let sources = from.as_object().map_or(0, |sources| sources.len());
    let has_value = !tree::text(variable, &["value"]).is_empty();
    let why = match (sources, has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, _) => return causes,
        _ => "may not have more than one field specified at a time",
    };
    causes.push(StatusCause::invalid(field, quoted(""), why));
    causes
}

/// Validates a `fileKeyRef`.
fn file_key(field: &str, file: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(file, &[part]);
    let mut causes = text::required(&format!("{field}.key"), text_of("key"), name_complaints);
    causes.extend(text::required(&format!("{field}.volumeName"), text_of("volumeName"), dns1123_label));
    let path = format!("{field}.path");
    match text_of("path") {
        "" => causes.push(StatusCause::required(path, "")),
        text => causes.extend(text::unreserved(&path, text)),
    }
    causes
}

fn name_complaints(name: &str) -> Vec<String> {
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let is_name = name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=');
    if is_name { Vec::new() } else { vec![why.to_owned()] }
}

/// Validates an `envFrom` list.
pub(super) fn sources(field: &str, sources: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let inner = format!("{field}[{index}]");
        let prefix = tree::text(source, &["prefix"]);
        causes.extend(text::check_optional(&format!("{inner}.prefix"), prefix, name_complaints));
        let named = ["configMapRef", "secretRef"].map(|kind| (kind, source.get(kind)));
        for (kind, reference) in named {
            let Some(reference) = reference else { continue };
            let name = tree::text(reference, &["name"]);
            causes.extend(text::required(&format!("{inner}.{kind}.name"), name, dns1123_subdomain));
        }
        // The real server omits the index and the field of the source here.
        let why = match named.iter().filter(|(_, reference)| reference.is_some()).count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        causes.push(StatusCause::invalid(field, "\"\"", why));
    }
    causes
}

/// Validates a `fieldRef`. `shown` are the supported paths.
pub(super) fn field_reference(field: &str, reference: &Value, shown: &[&str]) -> Vec<StatusCause> {
    let path = tree::text(reference, &["fieldPath"]);
    if path.is_empty() {
        return vec![StatusCause::required(format!("{field}.fieldPath"), "")];
    }
    let unconverted = |why: String| {
        let why = format!("error converting fieldPath: {why}");
        vec![StatusCause::invalid(format!("{field}.fieldPath"), quoted(path), &why)]
    };
    let version = tree::text(reference, &["apiVersion"]);
    if version != "v1" {
        return unconverted(format!("unsupported pod version: {version}"));
    }
    if let Some((path, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match path {
            "metadata.annotations" => text::check(field, &key.to_lowercase(), qualified_name),
            "metadata.labels" => text::check(field, key, qualified_name),
            path => unconverted(format!("field label does not support subscript: {path}['{key}']")),
        };
    }
    if !FIELDS.contains(&path) && !KNOWN_FIELDS.contains(&path) {
        return unconverted(format!("field label not supported: {path}"));
    }
    number::one_of(format!("{field}.fieldPath"), path, shown).into_iter().collect()
}

/// Validates a `resourceFieldRef`. In a volume, the container name is required.
pub(super) fn amount_reference(field: &str, reference: &Value, is_volume: bool) -> Vec<StatusCause> {
    let resource = tree::text(reference, &["resource"]);
    let mut causes = Vec::new();
    let is_huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if is_volume && tree::text(reference, &["containerName"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.containerName"), ""));
    } else if resource.is_empty() {
        causes.push(StatusCause::required(format!("{field}.resource"), ""));
    } else if !is_huge {
        causes.extend(number::one_of(format!("{field}.resource"), resource, &AMOUNTS));
    }
    let divisor = tree::text(reference, &["divisor"]).parse().unwrap_or_else(|_| Quantity::from(0i64));
    let (units, whose): (&[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&UNITS, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&UNITS, "local ephemeral storage"),
        _ if is_huge => (&UNITS, "hugepages"),
        _ => return causes,
    };
    if !divisor.is_zero() && !units.contains(&divisor.to_string().as_str()) {
        let listed = if whose == "cpu" { "1m and 1".to_owned() } else { units.join(", ") };
        let why = format!("only divisor's values {listed} are supported with the {whose} resource");
        causes.push(StatusCause::invalid(format!("{field}.divisor"), quoted(resource), &why));
    }
    causes
}
