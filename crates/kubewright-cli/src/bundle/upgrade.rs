//! Compares two bundles: can an operator be upgraded while its objects exist?

use kubewright_core::Value;

use super::read::{Bundle, at, items_at, text_at};
use super::validation::version_numbers;
use crate::crd::compare;

/// The changes that make the upgrade fail, or lose objects.
pub fn problems(old: &Bundle, new: &Bundle) -> Vec<String> {
    let mut problems = Vec::new();
    let version = |bundle: &Bundle| text_at(&bundle.csv, &["spec", "version"]).unwrap_or_default().to_owned();
    match (version_numbers(&version(old)), version_numbers(&version(new))) {
        (Some(before), Some(after)) if after > before => {}
        _ => problems.push(format!("the version {} is not after {}", version(new), version(old))),
    }
    let skips = items_at(&new.csv, &["spec", "skips"]);
    let is_replaced = text_at(&new.csv, &["spec", "replaces"]) == Some(old.name())
        || skips.iter().any(|skipped| skipped.as_str() == Some(old.name()))
        || text_at(&new.csv, &["metadata", "annotations", "olm.skipRange"]).is_some();
    if !is_replaced {
        problems.push(format!(
            "{} neither replaces nor skips {}, so that no channel leads there",
            new.name(),
            old.name()
        ));
    }
    for before in &old.definitions {
        let name = text_at(before, &["metadata", "name"]).unwrap_or_default();
        let Some(after) = new.definitions.iter().find(|after| text_at(after, &["metadata", "name"]) == Some(name))
        else {
            problems.push(format!("{name}: is removed, and all its objects are deleted"));
            continue;
        };
        problems.extend(compare(before, after).into_iter().map(|problem| format!("{name}: {problem}")));
        problems.extend(conversion(before, after).map(|problem| format!("{name}: {problem}")));
    }
    problems
}

/// A conversion that objects of the old bundle need.
fn conversion(before: &Value, after: &Value) -> Option<String> {
    let strategy = |tree: &Value| text_at(tree, &["spec", "conversion", "strategy"]).unwrap_or("None").to_owned();
    let stored = |tree: &Value| {
        let versions = items_at(tree, &["spec", "versions"]);
        let stored =
            versions.into_iter().find(|version| at(version, &["storage"]).and_then(Value::as_bool) == Some(true));
        stored.and_then(|version| text_at(version, &["name"])).unwrap_or_default().to_owned()
    };
    if strategy(before) == "Webhook" && strategy(after) != "Webhook" {
        return Some("the conversion webhook is removed, and objects are returned as they are stored".to_owned());
    }
    let (from, to) = (stored(before), stored(after));
    let schema = |tree: &Value, name: &str| {
        let versions = items_at(tree, &["spec", "versions"]);
        versions
            .into_iter()
            .find(|version| text_at(version, &["name"]) == Some(name))
            .and_then(|version| version.get("schema").cloned())
    };
    if from != to && strategy(after) != "Webhook" && schema(after, &from) != schema(after, &to) {
        return Some(format!(
            "objects were stored as {from}, and are stored as {to}, whose schema differs; that needs a conversion webhook"
        ));
    }
    None
}
