//! Compares two definitions: names, versions, subresources, and the schema of each version.

use kubewright_core::Value;
use kubewright_schema::incompatibilities;

/// Paths of a definition that a server does not allow to change.
const IMMUTABLE: [(&[&str], &str); 4] = [
    (&["spec", "group"], "group"),
    (&["spec", "scope"], "scope"),
    (&["spec", "names", "kind"], "kind"),
    (&["spec", "names", "plural"], "plural name"),
];

/// The incompatible changes, as sentences.
pub fn compare(old: &Value, new: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, name) in IMMUTABLE {
        let (before, after) = (text(old, path), text(new, path));
        if before != after {
            problems.push(format!("the {name} changes from {before:?} to {after:?}, which no server allows"));
        }
    }
    let (before, after) = (versions(old), versions(new));
    for version in &before {
        let name = name_of(version);
        let Some(next) = after.iter().find(|other| name_of(other) == name) else {
            let stored = if was_stored(old, version) { " while objects may be stored in it" } else { "" };
            problems.push(format!("version {name}: is removed{stored}"));
            continue;
        };
        if is(version, "served") && !is(next, "served") {
            problems.push(format!("version {name}: is no longer served"));
        }
        let report = |problem: String| format!("version {name}: {problem}");
        problems.extend(subresources(version, next).into_iter().map(report));
        problems.extend(selectable_fields(version, next).into_iter().map(report));
        problems.extend(schemas(version, next).into_iter().map(report));
    }
    problems.extend(stored_version(old, new));
    problems
}

/// The versions of a definition.
pub fn versions(definition: &Value) -> Vec<&Value> {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    versions.into_iter().flat_map(|versions| versions.iter()).collect()
}

/// The name of a version.
pub fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The schema of a version.
pub fn schema_of(version: &Value) -> Option<&Value> {
    version.get("schema")?.get("openAPIV3Schema")
}

/// The version in which objects are stored.
pub fn stored(definition: &Value) -> Option<&Value> {
    versions(definition).into_iter().find(|version| is(version, "storage"))
}

fn schemas(old: &Value, new: &Value) -> Vec<String> {
    let (Some(before), Some(after)) = (schema_of(old), schema_of(new)) else { return Vec::new() };
    let found = incompatibilities(before, after);
    found.into_iter().map(|one| format!("{} {}", place(&one.path), one.change)).collect()
}

/// Without a conversion webhook an object keeps its fields when the stored version changes. Fields
/// that the new version does not have are then pruned.
fn stored_version(old: &Value, new: &Value) -> Vec<String> {
    let (Some(before), Some(after)) = (stored(old), stored(new)) else { return Vec::new() };
    let converts = text(new, &["spec", "conversion", "strategy"]) == "Webhook";
    if name_of(before) == name_of(after) || converts {
        return Vec::new();
    }
    let (from, to) = (name_of(before), name_of(after));
    let changes = schemas(before, after).into_iter();
    changes.map(|change| format!("version {to}: is stored instead of {from} without conversion: {change}")).collect()
}

fn subresources(old: &Value, new: &Value) -> Vec<String> {
    let part = |version: &Value, name: &str| version.get("subresources").and_then(|parts| parts.get(name)).cloned();
    let mut problems = Vec::new();
    match (part(old, "status"), part(new, "status")) {
        (Some(_), None) => problems.push("the subresource status is removed".to_owned()),
        (None, Some(_)) => {
            problems.push("status becomes a subresource, so that other writes no longer change it".to_owned());
        }
        _ => {}
    }
    match (part(old, "scale"), part(new, "scale")) {
        (Some(_), None) => problems.push("the subresource scale is removed".to_owned()),
        (Some(before), Some(after)) if before != after => {
            problems.push("the subresource scale has other paths".to_owned());
        }
        _ => {}
    }
    problems
}

fn selectable_fields(old: &Value, new: &Value) -> Vec<String> {
    let fields = |version: &Value| -> Vec<String> {
        let fields = version.get("selectableFields").and_then(Value::as_array);
        let fields = fields.into_iter().flat_map(|fields| fields.iter());
        fields.filter_map(|field| field.get("jsonPath")?.as_str().map(str::to_owned)).collect()
    };
    let after = fields(new);
    let removed = fields(old).into_iter().filter(|field| !after.contains(field));
    removed.map(|field| format!("{} is no longer selectable", field.trim_start_matches('.'))).collect()
}

/// Whether objects may be stored in this version, as far as the old definition shows.
fn was_stored(definition: &Value, version: &Value) -> bool {
    let stored = definition.get("status").and_then(|status| status.get("storedVersions")).and_then(Value::as_array);
    let mut stored = stored.into_iter().flat_map(|stored| stored.iter()).filter_map(Value::as_str);
    is(version, "storage") || stored.any(|name| name == name_of(version))
}

/// The path of a field in a message.
fn place(path: &str) -> &str {
    if path.is_empty() { "the object" } else { path }
}

fn is(version: &Value, flag: &str) -> bool {
    version.get(flag).and_then(Value::as_bool) == Some(true)
}

fn text(definition: &Value, path: &[&str]) -> String {
    let value = path.iter().try_fold(definition, |value, step| value.get(step));
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}
