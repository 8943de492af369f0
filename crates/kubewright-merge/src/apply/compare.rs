//! Compares two objects field by field.

use std::collections::BTreeMap;

use super::field_set::{Element, FieldSet, FieldSetBuilder};
use super::schema::{MergeSchema, ValueParts};
use kubewright_core::{Map, Value};

/// How a second object differs from a first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldDifferences {
    /// Fields that only the second object has.
    pub added: FieldSet,
    /// Fields with different values.
    pub modified: FieldSet,
    /// Fields that only the first object has.
    pub removed: FieldSet,
}

impl FieldDifferences {
    /// Whether the objects are equal.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The comparison without these fields and everything below them.
    #[must_use]
    pub fn ignoring(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        FieldDifferences {
            added: self.added.minus_trees(fields),
            modified: self.modified.minus_trees(fields),
            removed: self.removed.minus_trees(fields),
        }
    }
}

/// Collects differences in any order of the fields.
#[derive(Default)]
struct ComparisonBuilder {
    added: FieldSetBuilder,
    modified: FieldSetBuilder,
    removed: FieldSetBuilder,
}

impl ComparisonBuilder {
    fn note(&mut self, element: &Element, (fate, below): (PathChange, FieldDifferences)) {
        self.added.put(element, fate == PathChange::Added, below.added);
        self.modified.put(element, fate == PathChange::Modified, below.modified);
        self.removed.put(element, fate == PathChange::Removed, below.removed);
    }

    fn finish(self) -> FieldDifferences {
        FieldDifferences {
            added: self.added.finish(),
            modified: self.modified.finish(),
            removed: self.removed.finish(),
        }
    }
}

/// Compares two objects.
pub fn compare(old: &Value, new: &Value, schema: MergeSchema<'_>) -> FieldDifferences {
    walk(Some(old), Some(new), schema).1
}

/// The change of one path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathChange {
    /// Unchanged, except for changes below it.
    Stayed,
    Added,
    Modified,
    Removed,
}

impl PathChange {
    fn of_presence(old: bool, new: bool) -> Self {
        match (old, new) {
            (false, true) => PathChange::Added,
            (true, false) => PathChange::Removed,
            _ => PathChange::Stayed,
        }
    }
}

/// The change of a path and of everything below it.
fn walk<'a>(old: Option<&'a Value>, new: Option<&'a Value>, schema: MergeSchema<'_>) -> (PathChange, FieldDifferences) {
    let mut below = ComparisonBuilder::default();
    match schema.parts(old, new) {
        ValueParts::Leaf => match (old, new) {
            (Some(old), Some(new)) if !old.is_equivalent(new) => {
                return (PathChange::Modified, FieldDifferences::default());
            }
            _ => {}
        },
        ValueParts::Map(old, new) => {
            let value_in = |map: Option<&'a Map<Value>>, key: &str| map.and_then(|entries| entries.get(key));
            for (key, before) in old.into_iter().flat_map(|entries| entries.iter()) {
                match value_in(new, key) {
                    // Most of an object does not change.
                    Some(after) if after == before => {}
                    after => below.note(&Element::field(key), walk(Some(before), after, schema.field_or_any(key))),
                }
            }
            for (key, after) in new.into_iter().flat_map(|entries| entries.iter()) {
                if value_in(old, key).is_none() {
                    below.note(&Element::field(key), walk(None, Some(after), schema.field_or_any(key)));
                }
            }
        }
        ValueParts::List(old, new) => items(old, new, schema, &mut below),
    }
    (PathChange::of_presence(old.is_some(), new.is_some()), below.finish())
}

fn items(old: &[Value], new: &[Value], schema: MergeSchema<'_>, found: &mut ComparisonBuilder) {
    let mut pairs: BTreeMap<Element, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, items) in [old, new].into_iter().enumerate() {
        for item in items {
            if let Ok(element) = schema.element(item) {
                pairs.entry(element).or_default()[side].push(item);
            }
        }
    }
    for (element, [old, new]) in pairs {
        let fate = match (&old[..], &new[..]) {
            ([] | [_], [] | [_]) => walk(old.first().copied(), new.first().copied(), schema.item()),
            // Duplicate items cannot be distinguished, so they are compared as a whole.
            (old @ [_, ..], new @ [_, ..]) if old != new => (PathChange::Modified, FieldDifferences::default()),
            (old, new) => (PathChange::of_presence(!old.is_empty(), !new.is_empty()), FieldDifferences::default()),
        };
        found.note(&element, fate);
    }
}
