//! How two lists merge: objects by their merge key, scalars as sets.

use std::collections::HashSet;

use super::order::{identity, in_order, key_of, positions};
use super::schema::Schema;
use super::{DIRECTIVE, merge_map, unknown_directive};
use crate::patch::PatchError;
use crate::{List, Map, Value};

/// What the type says of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListRules {
    /// Whether it merges at all, or is replaced as one value.
    pub(super) merges: bool,
    /// The field that identifies an item.
    pub(super) key: Option<&'static str>,
    item: Schema,
}

impl ListRules {
    /// The rules of the list in this field.
    #[inline]
    pub(super) fn of(schema: Schema, field: &str) -> Result<Self, PatchError> {
        let field = schema.field(field)?;
        Ok(ListRules { merges: field.strategy() == Some("merge"), key: field.merge_key(), item: field.item_schema()? })
    }
}

/// Merges a patch into a list.
#[inline]
pub(super) fn merge_list(original: List<Value>, patch: &[Value], rules: &ListRules) -> Result<List<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    match kind_of_items(original.iter().chain(patch))? {
        "object" => merge_objects(original, patch, rules),
        _ => Ok(merge_scalars(original, patch)),
    }
}

/// The union of both: what is in the patch in its order, all else in the order it had.
#[inline]
fn merge_scalars(original: List<Value>, patch: &[Value]) -> List<Value> {
    let mut seen = HashSet::new();
    let both = original.iter().chain(patch).filter(|item| seen.insert(identity(item)));
    in_order(both.cloned().collect(), patch, &original, None)
}

#[inline]
fn merge_objects(original: List<Value>, patch: &[Value], rules: &ListRules) -> Result<List<Value>, PatchError> {
    let Some(key) = rules.key else {
        return Err(PatchError::unmergeable("cannot merge lists without merge key"));
    };
    let mut additions = Vec::new();
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch.iter().filter_map(Value::as_object) {
        match item.get(DIRECTIVE) {
            None => additions.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    deleted.insert(identity(item.get(key).ok_or_else(|| no_merge_key(item, key))?));
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    return Err(PatchError::unmergeable("merging lists cannot yet be specified in the patch"));
                }
                _ => return Err(unknown_directive(directive, item)),
            },
        }
    }
    let mut items: Vec<Value> = match replace {
        true => additions.drain(..).cloned().map(Value::Object).collect(),
        false => original.into_iter().filter(|item| !deleted.contains(&identity(key_of(item, Some(key))))).collect(),
    };
    let before: Vec<Value> = items.iter().map(|item| key_of(item, Some(key)).clone()).collect();
    let mut position_of = positions(&items, Some(key));
    for addition in &additions {
        let id = identity(addition.get(key).ok_or_else(|| no_merge_key(addition, key))?);
        match position_of.get(&id) {
            Some(&at) => {
                let entries = std::mem::take(&mut items[at]);
                let entries = entries.as_object().cloned().unwrap_or_default();
                items[at] = Value::Object(merge_map(entries, addition, rules.item)?);
            }
            None => {
                position_of.insert(id, items.len());
                items.push(Value::Object((*addition).clone()));
            }
        }
    }
    check_merge_keys(&items, key)?;
    let wanted: Vec<Value> = additions.iter().filter_map(|item| item.get(key).cloned()).collect();
    Ok(in_order(items, &wanted, &before, Some(key)))
}

/// All items have to have the merge key.
#[inline]
pub(super) fn check_merge_keys(items: &[Value], key: &str) -> Result<(), PatchError> {
    for item in items {
        let Some(entries) = item.as_object() else {
            return Err(bad_type("map[string]interface {}", item));
        };
        if !entries.contains_key(key) {
            return Err(no_merge_key(entries, key));
        }
    }
    Ok(())
}

/// What kind all items are of; there has to be one at least.
#[inline]
pub(super) fn kind_of_items<'v>(items: impl Iterator<Item = &'v Value>) -> Result<&'static str, PatchError> {
    let mut kinds = items.map(Value::kind);
    let first = kinds.next().ok_or_else(|| PatchError::unmergeable("no elements in any of the given slices"))?;
    match first {
        "array" => Err(PatchError::ListOfLists),
        _ if first == "null" || kinds.any(|kind| kind != first) => {
            Err(PatchError::unmergeable("list element types are not identical"))
        }
        kind => Ok(kind),
    }
}

#[inline]
pub(super) fn bad_type(expected: &str, received: &Value) -> PatchError {
    PatchError::unmergeable(format_args!("expected a {expected}, but received a {}", received.kind()))
}

#[inline]
fn no_merge_key(item: &Map<Value>, key: &str) -> PatchError {
    PatchError::unmergeable(format_args!("map: {item:?} does not contain declared merge key: {key}"))
}
