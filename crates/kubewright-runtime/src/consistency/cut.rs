//! The part of a resource that a cache keeps.
//!
//! A cache can be limited by selectors, by namespaces, or to the shards of a replica. An object
//! that it does not have may still exist, and no event tells of a write to it. Readers ask the
//! server then.

use kubewright_cache::InformerHandle;
use kubewright_core::{FieldSelector, Map, Object, Selector, Str, Value};

/// The limits of a cache, apart from namespaces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cut {
    labels: Selector,
    fields: FieldSelector,
    /// Whether something else leaves objects out, as the shards of other replicas.
    is_filtered: bool,
}

/// Whether a cache keeps an object, as far as its selectors tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
    /// Only the server can tell.
    Unknown,
}

impl Cut {
    pub(crate) fn of<K: Object>(informer: &InformerHandle<K>) -> Self {
        Cut {
            labels: informer.label_selector().clone(),
            fields: informer.field_selector().clone(),
            is_filtered: informer.is_filtered(),
        }
    }

    /// Whether the cache has all objects of its namespaces.
    pub(crate) fn is_whole(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && !self.is_filtered
    }

    /// Whether the cache has all objects of its namespaces that `selector` selects.
    pub(crate) fn has_all_of(&self, selector: &Selector) -> bool {
        let is_implied = || {
            let (own, asked) = (self.labels.requirements(), selector.requirements());
            own.zip(asked).is_some_and(|(own, asked)| own.iter().all(|one| asked.contains(one)))
        };
        self.fields.is_everything() && !self.is_filtered && (self.labels.is_everything() || is_implied())
    }

    /// Whether the cache keeps an object in this state.
    pub(crate) fn keeps<K: Object>(&self, object: &K) -> Kept {
        if self.is_whole() {
            return Kept::Yes;
        }
        if !self.labels.is_everything() {
            let labels = object.labels();
            let labels: Map<Str> = labels.iter().map(|(key, value)| (Str::from(key), Str::from(value))).collect();
            if !self.labels.matches(&labels) {
                return Kept::No;
            }
        }
        match self.selects_fields(object) {
            Kept::Yes if self.is_filtered => Kept::Unknown,
            kept => kept,
        }
    }

    fn selects_fields<K: Object>(&self, object: &K) -> Kept {
        let mut kept = Kept::Yes;
        if self.fields.is_everything() {
            return kept;
        }
        let tree = Value::from_json(&object.to_json()).unwrap_or(Value::Null);
        for requirement in self.fields.requirements() {
            let value = requirement.field.split('.').try_fold(&tree, |tree, name| tree.get(name));
            match value.and_then(Value::as_str) {
                Some(value) if (requirement.value == *value) == requirement.negated => return Kept::No,
                Some(_) => {}
                // Servers have defaults for some fields, and names for others that are no paths.
                None => kept = Kept::Unknown,
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::{DynamicObject, GroupVersionKind};

    use super::*;

    fn cut(labels: &str, fields: &str, is_filtered: bool) -> Cut {
        Cut { labels: labels.parse().unwrap(), fields: fields.parse().unwrap(), is_filtered }
    }

    #[test]
    fn selectors_tell_whether_an_object_is_kept() {
        let mut pod = DynamicObject::new(&GroupVersionKind::from_static("", "v1", "Pod"), "web");
        pod.metadata.labels.insert("app", "web".into());
        pod.set(&["spec", "nodeName"], "one").unwrap();
        for (labels, fields, is_filtered, kept) in [
            ("", "", false, Kept::Yes),
            ("", "", true, Kept::Unknown),
            ("app=web", "", false, Kept::Yes),
            ("app=shop", "", true, Kept::No),
            ("", "spec.nodeName=one,metadata.name=web", false, Kept::Yes),
            ("", "spec.nodeName!=one", false, Kept::No),
            ("", "spec.unschedulable=false", false, Kept::Unknown),
            ("", "spec.unschedulable=false,metadata.name=shop", false, Kept::No),
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
