//! What differs between two objects, field by field.

use std::collections::BTreeMap;

use super::field_set::{Element, FieldSet};
use super::schema::{Parts, Schema};
use crate::patch::equal;
use crate::{Map, Value};

/// How a second object differs from a first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the second one has.
    pub added: FieldSet,
    /// Fields that have other values.
    pub modified: FieldSet,
    /// Fields that only the first one has.
    pub removed: FieldSet,
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The comparison as if these fields, with all below them, did not exist.
    #[must_use]
    pub fn ignoring(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Comparison {
            added: self.added.minus_trees(fields),
            modified: self.modified.minus_trees(fields),
            removed: self.removed.minus_trees(fields),
        }
    }
}

/// Compares two objects.
pub fn compare(old: &Value, new: &Value, schema: Schema<'_>) -> Comparison {
    let mut walker = Walker { path: Vec::new(), found: Comparison::default() };
    walker.walk(Some(old), Some(new), schema);
    walker.found
}

struct Walker {
    path: Vec<Element>,
    found: Comparison,
}

impl Walker {
    fn walk<'a>(&mut self, old: Option<&'a Value>, new: Option<&'a Value>, schema: Schema<'_>) {
        match schema.parts(old, new) {
            Parts::Leaf => match (old, new) {
                (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert(&self.path),
                _ => {}
            },
            Parts::Map(old, new) => {
                let value_in = |map: Option<&'a Map<Value>>, key: &str| map.and_then(|entries| entries.get(key));
                for (key, before) in old.into_iter().flat_map(|entries| entries.iter()) {
                    match value_in(new, key) {
                        // Most of an object stays as it is.
                        Some(after) if after == before => {}
                        after => self.descend(Element::field(key), Some(before), after, schema.field_or_any(key)),
                    }
                }
                for (key, after) in new.into_iter().flat_map(|entries| entries.iter()) {
                    if value_in(old, key).is_none() {
                        self.descend(Element::field(key), None, Some(after), schema.field_or_any(key));
                    }
                }
            }
            Parts::List(old, new) => self.items(old, new, schema),
        }
        match (old, new) {
            (None, Some(_)) => self.found.added.insert(&self.path),
            (Some(_), None) => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    fn items(&mut self, old: &[Value], new: &[Value], schema: Schema<'_>) {
        let mut pairs: BTreeMap<Element, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, items) in [old, new].into_iter().enumerate() {
            for item in items {
                if let Ok(element) = schema.element(item) {
                    pairs.entry(element).or_default()[side].push(item);
                }
            }
        }
        for (element, [old, new]) in pairs {
            match (&old[..], &new[..]) {
                ([] | [_], [] | [_]) => {
                    self.descend(element, old.first().copied(), new.first().copied(), schema.item());
                }
                // Items that occur twice cannot be told apart, and so are compared as a whole.
                (old, new) => {
                    self.path.push(element);
                    match (old.is_empty(), new.is_empty()) {
                        (true, _) => self.found.added.insert(&self.path),
                        (_, true) => self.found.removed.insert(&self.path),
                        _ if old != new => self.found.modified.insert(&self.path),
                        _ => {}
                    }
                    self.path.pop();
                }
            }
        }
    }

    fn descend(&mut self, element: Element, old: Option<&Value>, new: Option<&Value>, schema: Schema<'_>) {
        self.path.push(element);
        self.walk(old, new, schema);
        self.path.pop();
    }
}
