//! Warnings about valid but suspicious objects, which clients print.
//!
//! Covers the common cases only: finalizers of custom objects without a domain, and duplicate or
//! ineffective fields of pods.

use std::collections::{BTreeSet, HashMap, HashSet};

use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1123_label, qualified_name};
use kubewright_core::{Quantity, Str, Value};

use crate::ValidatedResource;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Deprecated node labels.
const OLD_NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
];

/// Deprecated and removed volume types.
const OLD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// String formats of schemas that the server validates.
const KNOWN_FORMATS: [&str; 31] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "date-time",
    "k8s-short-name",
    "k8s-long-name",
    "int32",
    "int64",
    "float",
    "double",
];

/// The warnings about an object that replaces `old`.
pub fn warnings(resource: &ValidatedResource<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
    if resource.is_custom() {
        return finalizers(old, new);
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        let before = old.map(unknown_formats).unwrap_or_default();
        let added = unknown_formats(new).into_iter().filter(|format| !before.contains(format));
        return added.map(|format| format!("unrecognized format {format:?}")).collect();
    }
    let template: &[&str] = match (resource.group, resource.plural) {
        ("", "pods") => &[],
        ("apps", _) | ("batch", "jobs") | ("", "replicationcontrollers") => &["spec", "template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        ("", "podtemplates") => &["template"],
        _ => return Vec::new(),
    };
    let Some(pod) = tree::get(new, template) else { return Vec::new() };
    // An unchanged pod spec was warned about before.
    if old.is_some_and(|old| tree::get(old, template).and_then(|pod| pod.get("spec")) == pod.get("spec")) {
        return Vec::new();
    }
    let prefix: String = template.iter().map(|part| format!("{part}.")).collect();
    let mut found = Vec::new();
    if template.is_empty() && old.is_none() {
        let why = dns1123_label(new.name());
        if !why.is_empty() {
            found.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; \
                 a DNS label is recommended: [{}]",
                why.join(" ")
            ));
        }
    }
    pod_spec(&format!("{prefix}spec"), pod.get("spec").unwrap_or(&Value::Null), &mut found);
    found
}

/// Formats in the schemas of a definition that the server ignores.
fn unknown_formats(definition: &Value) -> BTreeSet<String> {
    fn collect(schema: &Value, found: &mut BTreeSet<String>) {
        let format = tree::text(schema, &["format"]);
        if !format.is_empty() && !KNOWN_FORMATS.contains(&format) && !found.contains(format) {
            found.insert(format.to_owned());
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flat_map(|fields| fields.iter().map(|(_, part)| part));
        let parts = ["additionalProperties", "items"].into_iter().filter_map(|field| schema.get(field));
        properties.chain(parts).for_each(|part| collect(part, found));
    }
    let mut found = BTreeSet::new();
    for version in tree::items(definition, &["spec", "versions"]) {
        collect(tree::get(version, &["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null), &mut found);
    }
    found
}

/// Warnings about new finalizers without a domain, which may conflict with others.
fn finalizers(old: Option<&Value>, new: &Value) -> Vec<String> {
    let before: HashSet<Str> = old.map(Meta::finalizers).unwrap_or_default().into_iter().collect();
    let mut added: Vec<Str> = new.finalizers().into_iter().filter(|one| !before.contains(one)).collect();
    added.sort();
    added.dedup();
    let mut found = Vec::new();
    for finalizer in &added {
        let finalizer = finalizer.as_str();
        found.extend(qualified_name(finalizer).iter().map(|why| format!("metadata.finalizers: {finalizer:?}: {why}")));
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            found.push(format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{path} \
                 to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    found
}

fn pod_spec(path: &str, spec: &Value, found: &mut Vec<String>) {
    for (label, why) in OLD_NODE_LABELS {
        if tree::get(spec, &["nodeSelector", label]).is_some() {
            found.push(format!("{path}.nodeSelector[{label}]: {why}"));
        }
    }
    for (index, constraint) in tree::items(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let key = tree::text(constraint, &["topologyKey"]);
        if let Some((_, why)) = OLD_NODE_LABELS.iter().find(|(label, _)| *label == key) {
            found.push(format!("{path}.topologyKey: {key} is {why}"));
        }
        if constraint.get("labelSelector").is_none() {
            found.push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
    for (index, volume) in tree::items(spec, &["volumes"]).iter().enumerate() {
        for (source, why) in OLD_VOLUMES.iter().filter(|(source, _)| volume.get(source).is_some()) {
            let source = if *source == "storageos" { "storageOS" } else { source };
            found.push(format!("{path}.volumes[{index}].{source}: {why}"));
        }
    }
    duplicates(path, spec, "hostAliases", "ip", found);
    duplicates(path, spec, "imagePullSecrets", "name", found);
    for (index, secret) in tree::items(spec, &["imagePullSecrets"]).iter().enumerate() {
        if tree::text(secret, &["name"]).is_empty() {
            found.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for (path, container) in containers(path, spec) {
        for kind in ["limits", "requests"] {
            for name in ["memory", "ephemeral-storage"] {
                let amount = tree::text(container, &["resources", kind, name]);
                if amount.parse::<Quantity>().is_ok_and(|amount| amount.milli_value() % 1000 != 0) {
                    let why = format!("fractional byte value {amount:?} is invalid, must be an integer");
                    found.push(format!("{path}.resources.{kind}[{name}]: {why}"));
                }
            }
        }
        hidden_variables(&path, container, found);
    }
    ports(path, spec, found);
    if tree::int(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        found.push(format!("{path}.terminationGracePeriodSeconds: {why}"));
    }
}

/// All containers of a pod with their paths.
fn containers<'a>(path: &str, spec: &'a Value) -> Vec<(String, &'a Value)> {
    let of_kind = |kind: &'static str| {
        let list = tree::items(spec, &[kind]).iter().enumerate();
        list.map(move |(index, container)| (format!("{path}.{kind}[{index}]"), container))
    };
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(of_kind).collect()
}

/// Warnings about duplicate items of a list.
fn duplicates(path: &str, spec: &Value, list: &str, field: &str, found: &mut Vec<String>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, item) in tree::items(spec, &[list]).iter().enumerate() {
        let text = tree::text(item, &[field]);
        if !seen.insert(text) {
            found.push(format!("{path}.{list}[{index}].{field}: duplicate {field} {text:?}"));
        }
    }
}

/// Warnings about environment variables that hide earlier ones without referring to them.
fn hidden_variables(path: &str, container: &Value, found: &mut Vec<String>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, variable) in tree::items(container, &["env"]).iter().enumerate() {
        let name = tree::text(variable, &["name"]);
        if seen.insert(name) {
            continue;
        }
        let (value, reference) = (tree::text(variable, &["value"]), format!("$({name})"));
        let builds_on = value != reference && value.contains(&reference) && variable.get("valueFrom").is_none();
        if !builds_on {
            let why = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            found.push(format!("{path}.env[{index}]: {why}"));
        }
    }
}

/// Maximum number of warnings about ports.
const PORT_WARNINGS_MAX: usize = 1000;

/// Warnings about duplicate ports, in one container or in several.
fn ports(path: &str, spec: &Value, found: &mut Vec<String>) {
    let number = |port: &Value, field: &str| tree::int(port, &[field]).unwrap_or_default();
    let mut seen: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
    for (path, container) in containers(path, spec) {
        for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
            let here = format!("{path}.ports[{index}]");
            let same = seen.entry((number(port, "containerPort"), tree::text(port, &["protocol"]))).or_default();
            for (there, other) in &*same {
                let (host, other_host) = (number(port, "hostPort"), number(other, "hostPort"));
                let (ip, other_ip) = (tree::text(port, &["hostIP"]), tree::text(other, &["hostIP"]));
                let how = match (host == other_host, ip == other_ip) {
                    (true, true) => "duplicate",
                    _ if host == 0 || other_host == 0 => "overlapping",
                    (true, false) if ip.is_empty() || other_ip.is_empty() => "dangerously ambiguous",
                    _ => continue,
                };
                found.push(format!("{here}: {how} port definition with {there}"));
                // Each pair of equal ports causes a warning, so there may be many.
                if found.len() >= PORT_WARNINGS_MAX {
                    return;
                }
            }
            same.push((here, port));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_testing::{assert_linear, processor_time};

    #[test]
    fn many_unknown_formats_are_named_once_each() {
        assert_linear(2000, |count| {
            let field = |number| format!(r#""f{number:06}":{{"type":"string","format":"format-{number:06}"}}"#);
            let fields: Vec<String> = (0..count).map(field).collect();
            let schema = format!(r#"{{"openAPIV3Schema":{{"properties":{{{}}}}}}}"#, fields.join(","));
            let definition = format!(r#"{{"spec":{{"versions":[{{"schema":{schema}}},{{"schema":{schema}}}]}}}}"#);
            let definition = definition.parse().expect("valid JSON");
            let start = processor_time();
            assert_eq!(unknown_formats(&definition).len(), count);
            start
        });
    }
}
