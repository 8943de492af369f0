//! Aggregated ClusterRoles: they collect the rules of the roles that their selectors match.

use std::collections::HashSet;

use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{Decoder, List, Selector, Value};

use super::Registry;
use kubewright_objects::lookup::IndexTerm;
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_resources::catalog::Resource;
use kubewright_storage::{Key, KeyRange};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// The index terms of a ClusterRole: marks roles with an aggregation rule.
pub(crate) fn aggregation_terms(_: &Key, role: &Value) -> Vec<IndexTerm> {
    if selectors(role).is_empty() { Vec::new() } else { vec![IndexTerm::AggregatedRole] }
}

/// Updates the aggregated roles that match a written role. `written` is that role before and after.
///
/// In a cluster, a controller does this asynchronously. Here it is done before the write is
/// answered.
pub(crate) fn collect_rules(registry: &Registry, written: &[&StoredObject]) {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage(ROLES) else { return };
    let keys: Vec<Key> = registry.indices.terms().keys(&IndexTerm::AggregatedRole).cloned().collect();
    for key in keys {
        let Some(role) = registry.store.newest(&key) else { continue };
        let selectors: Vec<Selector> = selectors(role.object.value()).iter().filter_map(selector).collect();
        let is_affected = written.iter().any(|other| {
            other.value().name() == key.name() || selectors.iter().any(|selector| selector.matches(&other.labels))
        });
        if is_affected {
            collect(registry, resource, role.object.value(), &selectors);
        }
    }
}

/// Sets the rules of an aggregated role to those of all matching roles.
fn collect(registry: &Registry, resource: &Resource, role: &Value, selectors: &[Selector]) {
    let roles = registry.all(&KeyRange::resource(ROLES));
    let (mut rules, mut known) = (List::<Value>::new(), HashSet::new());
    for selector in selectors {
        for chosen in roles.iter().filter(|other| selector.matches(&other.object.labels)) {
            if chosen.object.value().name() == role.name() {
                continue;
            }
            for rule in tree::items(chosen.object.value(), &["rules"]) {
                if known.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    if tree::items(role, &["rules"]) == &rules[..] {
        return;
    }
    // Ignore failures: a concurrent write or deletion of the role triggers another call.
    let _ = registry.change(resource, "", role.name(), |old| {
        let mut new = old.clone();
        tree::set(&mut new, &["rules"], Value::Array(rules.clone()));
        Ok(new)
    });
}

fn selectors(role: &Value) -> &[Value] {
    tree::items(role, &["aggregationRule", "clusterRoleSelectors"])
}

fn selector(value: &Value) -> Option<Selector> {
    let selector: LabelSelector = Decoder::new().json(value.to_string().as_bytes()).ok()?;
    Selector::from_label_selector(Some(&selector)).ok()
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::registry::{CreateRequest, Ownership};
    use kubewright_storage::StoreOptions;
    use kubewright_testing::{assert_linear, processor_time};

    fn create(registry: &Registry, name: &str, rest: &str) {
        let role = format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}}{rest}}}"#
        );
        let (catalog, value) = (registry.catalog(), role.parse().expect("valid JSON"));
        let resource = catalog.of_storage(ROLES).expect("it is built in");
        let (namespace, control, ownership, dry_run) = ("", None, Ownership::Keep, false);
        let made = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
        made.unwrap_or_else(|refused| panic!("{refused:?}"));
    }

    #[test]
    fn roles_without_aggregation_are_created_in_linear_time() {
        assert_linear(300, |count| {
            let registry = Registry::new(StoreOptions::default(), watch::channel(false).1);
            for number in 0..10 {
                let selectors = format!(r#"[{{"matchLabels":{{"collect-{number}":"true"}}}}]"#);
                let rule = format!(r#","aggregationRule":{{"clusterRoleSelectors":{selectors}}}"#);
                create(&registry, &format!("collecting-{number}"), &rule);
            }
            let start = processor_time();
            let rules = r#","rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#;
            (0..count).for_each(|number| create(&registry, &format!("role-{number}"), rules));
            start
        });
    }
}
