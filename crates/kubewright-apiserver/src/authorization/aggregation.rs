//! Roles that collect the rules of others, chosen by their labels.

use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{Decoder, List, Selector, Value};

use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::storage::Scope;

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// Brings all collecting roles up to date.
///
/// A controller does this in a cluster of several parts, a moment later; here it has happened when the write is answered.
pub(crate) fn collect_rules(registry: &Registry) {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage(ROLES) else { return };
    let roles = registry.all(&Scope::resource(ROLES));
    for role in &roles {
        let selectors = tree::items(role.object.value(), &["aggregationRule", "clusterRoleSelectors"]);
        if selectors.is_empty() {
            continue;
        }
        let mut rules: List<Value> = List::new();
        for selector in selectors.iter().filter_map(selector) {
            for chosen in roles.iter().filter(|other| {
                other.object.value().name() != role.object.value().name() && selector.matches(&other.object.labels)
            }) {
                for rule in tree::items(chosen.object.value(), &["rules"]) {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if tree::items(role.object.value(), &["rules"]) == &rules[..] {
            continue;
        }
        // Who deleted or changed the role meanwhile has caused another round by that.
        let _ = registry.change(resource, "", role.object.value().name(), |old| {
            let mut new = old.clone();
            tree::set(&mut new, &["rules"], Value::Array(rules.clone()));
            Ok(new)
        });
    }
}

fn selector(value: &Value) -> Option<Selector> {
    let selector: LabelSelector = Decoder::new().json(value.to_string().as_bytes()).ok()?;
    Selector::from_label_selector(Some(&selector)).ok()
}
