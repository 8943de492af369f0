//! The part of a resource that a cache holds.
//!
//! A cache can be limited by selectors, by namespaces, or to the shards of a replica. An object
//! that is not in it may still exist, and writes to it cause no event. Readers then ask the server.

use kubewright_cache::InformerHandle;
use kubewright_core::{FieldSelector, Map, Object, Selector, Str, Value};

/// The limits of a cache, apart from namespaces.
#[derive(Debug, Clone, Default)]
pub(crate) struct CacheLimits {
    labels: Selector,
    fields: FieldSelector,
    /// Whether another filter applies, such as the shards of other replicas.
    is_filtered: bool,
}

/// Whether a cache holds an object, as far as its selectors tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    Yes,
    No,
    /// Only the server can tell.
    Unknown,
}

impl CacheLimits {
    pub(crate) fn of<K: Object>(informer: &InformerHandle<K>) -> Self {
        CacheLimits {
            labels: informer.label_selector().clone(),
            fields: informer.field_selector().clone(),
            is_filtered: informer.is_filtered(),
        }
    }

    /// Whether the cache holds all objects of its namespaces.
    pub(crate) fn is_whole(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && !self.is_filtered
    }

    /// Whether the cache holds all objects of its namespaces that match `selector`.
    pub(crate) fn has_all_of(&self, selector: &Selector) -> bool {
        let is_implied = || {
            let (own, asked) = (self.labels.requirements(), selector.requirements());
            own.zip(asked).is_some_and(|(own, asked)| own.iter().all(|one| asked.contains(one)))
        };
        self.fields.is_everything() && !self.is_filtered && (self.labels.is_everything() || is_implied())
    }

    /// Whether the cache holds an object in this state.
    pub(crate) fn keeps<K: Object>(&self, object: &K) -> Coverage {
        if self.is_whole() {
            return Coverage::Yes;
        }
        if !self.labels.is_everything() {
            let labels = object.labels();
            let labels: Map<Str> = labels.iter().map(|(key, value)| (Str::from(key), Str::from(value))).collect();
            if !self.labels.matches(&labels) {
                return Coverage::No;
            }
        }
        match self.selects_fields(object) {
            Coverage::Yes if self.is_filtered => Coverage::Unknown,
            kept => kept,
        }
    }

    fn selects_fields<K: Object>(&self, object: &K) -> Coverage {
        let mut kept = Coverage::Yes;
        if self.fields.is_everything() {
            return kept;
        }
        let tree = Value::from_json(&object.to_json()).unwrap_or(Value::Null);
        for requirement in self.fields.requirements() {
            let value = requirement.field.split('.').try_fold(&tree, |tree, name| tree.get(name));
            match value.and_then(Value::as_str) {
                Some(value) if (requirement.value == *value) == requirement.negated => return Coverage::No,
                Some(_) => {}
                // Servers default some fields, and have selector names that are not paths.
                None => kept = Coverage::Unknown,
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::{DynamicObject, GroupVersionKind};

    use super::*;

    fn cut(labels: &str, fields: &str, is_filtered: bool) -> CacheLimits {
        CacheLimits { labels: labels.parse().unwrap(), fields: fields.parse().unwrap(), is_filtered }
    }

    #[test]
    fn selectors_decide_whether_the_cache_holds_an_object() {
        let mut pod = DynamicObject::new(&GroupVersionKind::from_static("", "v1", "Pod"), "web");
        pod.metadata.labels.insert("app", "web".into());
        pod.set(&["spec", "nodeName"], "one").unwrap();
        for (labels, fields, is_filtered, kept) in [
            ("", "", false, Coverage::Yes),
            ("", "", true, Coverage::Unknown),
            ("app=web", "", false, Coverage::Yes),
            ("app=shop", "", true, Coverage::No),
            ("", "spec.nodeName=one,metadata.name=web", false, Coverage::Yes),
            ("", "spec.nodeName!=one", false, Coverage::No),
            ("", "spec.unschedulable=false", false, Coverage::Unknown),
            ("", "spec.unschedulable=false,metadata.name=shop", false, Coverage::No),
        ] {
            assert_eq!(cut(labels, fields, is_filtered).keeps(&pod), kept, "{labels} {fields} {is_filtered}");
        }
    }

    #[test]
    fn a_cache_has_all_that_a_narrower_selector_selects() {
        for (own, asked, has_all) in [
            ("", "", true),
            ("app=web", "", false),
            ("app=web", "app=web", true),
            ("app=web", "app=web,tier=front", true),
            ("app=web", "app=shop", false),
        ] {
            assert_eq!(cut(own, "", false).has_all_of(&asked.parse().unwrap()), has_all, "{own} {asked}");
        }
        assert!(!cut("app=web", "", true).has_all_of(&"app=web".parse().unwrap()));
    }
}
