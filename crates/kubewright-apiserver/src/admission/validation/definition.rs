//! CustomResourceDefinitions.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;
use super::number;
use crate::object::{Meta, tree};
use crate::schema::structural_complaints;

/// What is wrong with a definition.
pub(super) fn definition(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let text = |path: &[&str]| tree::text(value, path).to_owned();
    let (group, plural, kind) =
        (text(&["spec", "group"]), text(&["spec", "names", "plural"]), text(&["spec", "names", "kind"]));
    for (field, text) in [("spec.group", &group), ("spec.names.plural", &plural), ("spec.names.kind", &kind)] {
        if text.is_empty() {
            causes.push(StatusCause::required(field, ""));
        }
    }
    if value.name() != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(StatusCause::invalid("metadata.name", quoted(value.name()), why));
    }
    let scope = text(&["spec", "scope"]);
    match &*scope {
        "" => causes.push(StatusCause::required("spec.scope", "")),
        scope => causes.extend(number::one_of("spec.scope", scope, &["Cluster", "Namespaced"])),
    }
    let versions = tree::items(value, &["spec", "versions"]);
    let stored = versions.iter().filter(|version| tree::is_true(version, &["storage"])).count();
    if stored != 1 {
        let shown = Value::from(versions.to_vec());
        let why = "must have exactly one version marked as storage version";
        causes.push(StatusCause::invalid("spec.versions", shown, why));
    }
    let known = old.map(|old| tree::items(old, &["spec", "versions"])).unwrap_or_default();
    let known: Vec<_> = known.iter().map(|version| tree::get(version, &["schema", "openAPIV3Schema"])).collect();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match tree::get(version, &["schema", "openAPIV3Schema"]) {
            None => causes.push(StatusCause::required(path, "")),
            // A schema that has been accepted is not refused later.
            Some(schema) if !known.contains(&Some(schema)) => causes.extend(structural_complaints(&path, schema)),
            Some(_) => {}
        }
        let name = tree::text(version, &["name"]);
        if versions[..index].iter().any(|other| tree::text(other, &["name"]) == name) {
            causes.push(StatusCause::duplicate(format!("spec.versions[{index}].name"), quoted(name)));
        }
    }
    if let Some(old) = old {
        for path in
            [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "plural"], &["spec", "names", "kind"]]
        {
            causes.extend(number::immutable(value, old, path));
        }
    }
    causes
}
