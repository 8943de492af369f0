//! Validates CustomResourceDefinitions.

use std::collections::HashSet;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1035_label, dns1123_subdomain};

use super::definition_version::SharedFields;
use super::metadata::quoted;
use super::{definition_version, number, text, webhook};
use crate::approval;

/// Validates a CustomResourceDefinition.
pub(super) fn definition(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (group, plural) = (tree::text(value, &["spec", "group"]), tree::text(value, &["spec", "names", "plural"]));
    if old.is_none() && !value.name().is_empty() && value.name() != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(StatusCause::invalid("metadata.name", quoted(value.name()), why));
    }
    causes.extend(check_group(group));
    match tree::text(value, &["spec", "scope"]) {
        "" => causes.push(StatusCause::required("spec.scope", "")),
        scope => causes.extend(number::one_of("spec.scope", scope, &["Cluster", "Namespaced"])),
    }
    let names = tree::get(value, &["spec", "names"]).unwrap_or(&Value::Null);
    causes.extend(text::missing("spec.names", names, &["plural", "singular", "kind", "listKind"]));
    causes.extend(check_names("spec.names", names));
    causes.extend(check_versions(value, old));
    causes.extend(check_conversion(value, old));
    causes.extend(check_stored_versions(value));
    if let Some(old) = old {
        for path in
            [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "plural"], &["spec", "names", "kind"]]
        {
            causes.extend(number::immutable(value, old, path));
        }
    }
    causes.extend(approval::complaint(value, old));
    if tree::is_true(value, &["spec", "preserveUnknownFields"]) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(StatusCause::invalid("spec.preserveUnknownFields", true, why));
    }
    causes
}

fn check_group(group: &str) -> Option<StatusCause> {
    if group.is_empty() {
        return Some(StatusCause::required("spec.group", ""));
    }
    let complaints = dns1123_subdomain(group);
    if !complaints.is_empty() {
        Some(StatusCause::invalid("spec.group", quoted(group), &complaints.join(",")))
    } else if !group.contains('.') {
        Some(StatusCause::invalid("spec.group", quoted(group), "should be a domain with at least one dot"))
    } else {
        None
    }
}

/// Validates the accepted names in the status.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    check_names("status.acceptedNames", tree::get(value, &["status", "acceptedNames"]).unwrap_or(&Value::Null))
}

/// Validates the syntax of all names that are set.
fn check_names(field: &str, names: &Value) -> Vec<StatusCause> {
    let text = |field: &str| tree::text(names, &[field]);
    let mut causes = Vec::new();
    for part in ["plural", "singular", "kind", "listKind"] {
        let (path, name) = (format!("{field}.{part}"), text(part));
        let is_kind = matches!(part, "kind" | "listKind");
        if name.is_empty() {
            continue;
        }
        if let Some(why) = label_complaint(&if is_kind { name.to_lowercase() } else { name.to_owned() }) {
            let why = if is_kind { format!("may have mixed case, but should otherwise match: {why}") } else { why };
            causes.push(StatusCause::invalid(path, quoted(name), &why));
        }
    }
    let labels = |list: &'static str| {
        tree::items(names, &[list]).iter().enumerate().filter_map(move |(index, name)| {
            let name = name.as_str().unwrap_or_default();
            let why = label_complaint(name)?;
            Some(StatusCause::invalid(format!("{field}.{list}[{index}]"), quoted(name), &why))
        })
    };
    causes.extend(labels("shortNames"));
    let kind = text("kind");
    if !kind.is_empty() && kind == text("listKind") {
        let why = "kind and listKind may not be the same";
        causes.push(StatusCause::invalid(format!("{field}.listKind"), quoted(kind), why));
    }
    causes.extend(labels("categories"));
    causes
}

fn check_versions(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let versions = tree::items(value, &["spec", "versions"]);
    let known = old.map(|old| tree::items(old, &["spec", "versions"])).unwrap_or_default();
    let known = known.iter().filter_map(|version| tree::get(version, &["schema", "openAPIV3Schema"]));
    let known: HashSet<Vec<u8>> = known.map(tree::to_json).collect();
    let shared = SharedFields::of(versions);
    let has_one_schema = shared.has("schema");
    for (index, version) in versions.iter().enumerate() {
        let (path, name) = (format!("spec.versions[{index}]"), tree::text(version, &["name"]));
        let why = label_complaint(name);
        causes.extend(why.map(|why| StatusCause::invalid(format!("{path}.name"), quoted(name), &why)));
        causes.extend(definition_version::version(&path, index, version, &shared));
        let path = format!("{path}.schema.openAPIV3Schema");
        match tree::get(version, &["schema", "openAPIV3Schema"]) {
            None => causes.push(StatusCause::required(path, "")),
            Some(_) if has_one_schema && index > 0 => {}
            // An accepted schema stays accepted.
            Some(schema) if known.contains(&tree::to_json(schema)) => {}
            Some(schema) => {
                let path = if has_one_schema { "spec.validation.openAPIV3Schema" } else { &path };
                let has_status = |version: &Value| tree::get(version, &["subresources", "status"]).is_some();
                if has_status(version) || (has_one_schema && versions.iter().any(has_status)) {
                    causes.extend(definition_version::root_beside_status(path, schema));
                }
                causes.extend(kubewright_schema::validate_schema(path, schema));
            }
        }
    }
    let mut complain =
        |why: &str| causes.push(StatusCause::invalid("spec.versions", Value::from(versions.to_vec()), why));
    let names: HashSet<&str> = versions.iter().map(|version| tree::text(version, &["name"])).collect();
    if names.len() < versions.len() {
        complain("must contain unique version names");
    }
    if versions.iter().filter(|version| tree::is_true(version, &["storage"])).count() != 1 {
        complain("must have exactly one version marked as storage version");
    }
    causes
}

/// Validates the conversion. Paths use the field names of the real server's internal type.
fn check_conversion(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    const PATH: &str = "spec.conversion";
    let Some(found) = tree::get(value, &["spec", "conversion"]) else { return Vec::new() };
    let (client, reviews) = (format!("{PATH}.webhookClientConfig"), format!("{PATH}.conversionReviewVersions"));
    let strategy = tree::text(found, &["strategy"]);
    let mut causes = match strategy {
        "" => vec![StatusCause::required(format!("{PATH}.strategy"), "")],
        strategy => number::one_of(format!("{PATH}.strategy"), strategy, &["None", "Webhook"]).into_iter().collect(),
    };
    let config = tree::get(found, &["webhook", "clientConfig"]);
    let versions = tree::items(found, &["webhook", "conversionReviewVersions"]);
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        causes.extend(config.map(|_| StatusCause::forbidden(client, why)));
        causes.extend((!versions.is_empty()).then(|| StatusCause::forbidden(reviews, why)));
        return causes;
    }
    match config {
        None => causes.push(StatusCause::required(client, "required when strategy is set to Webhook")),
        Some(config) => causes.extend(webhook::client_config(&client, config)),
    }
    // An update may keep a list without any known review version.
    let was_recognized = |old: &Value| {
        let versions = tree::items(old, &["spec", "conversion", "webhook", "conversionReviewVersions"]);
        versions.is_empty() || versions.iter().any(is_known_review)
    };
    if versions.is_empty() {
        causes.push(StatusCause::required(reviews, ""));
    } else if !versions.iter().any(is_known_review) && old.is_none_or(was_recognized) {
        let shown = Value::from(versions.to_vec());
        causes.push(StatusCause::invalid(reviews, shown, "must include at least one of v1, v1beta1"));
    }
    causes
}

fn is_known_review(version: &Value) -> bool {
    matches!(version.as_str(), Some("v1" | "v1beta1"))
}

/// Validates the stored versions: each must be in `spec.versions`, and the storage version must be
/// listed.
fn check_stored_versions(value: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "status.storedVersions";
    let (versions, stored) =
        (tree::items(value, &["spec", "versions"]), tree::items(value, &["status", "storedVersions"]));
    if stored.is_empty() {
        return vec![StatusCause::invalid(FIELD, "null", "must have at least one stored version")];
    }
    let mut causes = Vec::new();
    let known: HashSet<&str> = stored.iter().filter_map(Value::as_str).collect();
    for version in versions.iter().filter(|version| tree::is_true(version, &["storage"])) {
        let name = tree::text(version, &["name"]);
        if !known.contains(name) {
            let why = format!("must have the storage version {name}");
            causes.push(StatusCause::invalid(FIELD, Value::from(stored.to_vec()), &why));
        }
    }
    let names: HashSet<&str> = versions.iter().map(|version| tree::text(version, &["name"])).collect();
    let missing = stored.iter().enumerate();
    let missing = missing.filter(|(_, name)| !name.as_str().is_some_and(|name| names.contains(name)));
    causes.extend(missing.map(|(index, name)| {
        let version = name.as_str().unwrap_or_default();
        let why = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        StatusCause::invalid(format!("{FIELD}[{index}]"), quoted(version), &why)
    }));
    causes
}

/// Joins all problems of a DNS label into one message.
fn label_complaint(name: &str) -> Option<String> {
    let complaints = dns1035_label(name);
    (!complaints.is_empty()).then(|| complaints.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_testing::{assert_linear, processor_time};

    #[test]
    fn validation_is_linear_in_the_number_of_versions() {
        assert_linear(250, |count| {
            let version = |number: usize| {
                tree::map([
                    ("name", format!("v{number}").into()),
                    ("served", true.into()),
                    ("storage", (number == 0).into()),
                    ("schema", tree::map([("openAPIV3Schema", tree::map([("type", "object".into())]))])),
                ])
            };
            let versions = tree::array((0..count).map(version));
            let names = tree::map([("plural", "foos".into()), ("kind", "Foo".into())]);
            let spec = [("group", "e.com".into()), ("names", names), ("versions", versions)];
            let stored = tree::array((0..count).map(|number| Value::from(format!("v{number}"))));
            let value = tree::map([("spec", tree::map(spec)), ("status", tree::map([("storedVersions", stored)]))]);
            let start = processor_time();
            assert!(check_versions(&value, Some(&value)).is_empty());
            assert!(check_stored_versions(&value).is_empty());
            start
        });
    }
}
