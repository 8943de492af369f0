//! The items of a list: the rules to merge them, and what they must have in common.

use kubewright_core::{Map, Value};

use super::schema::PatchSchema;
use crate::patch::error::PatchError;

/// Merge rules of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListRules {
    /// Whether it is merged, or replaced as a whole.
    pub(super) merges: bool,
    /// The field that identifies an item.
    pub(super) key: Option<&'static str>,
    pub(super) item: PatchSchema,
}

impl ListRules {
    /// The rules of the list in this field.
    #[inline]
    pub(super) fn of(schema: PatchSchema, field: &str) -> Result<Self, PatchError> {
        let field = schema.field(field)?;
        Ok(ListRules { merges: field.strategy() == Some("merge"), key: field.merge_key(), item: field.item_schema()? })
    }
}

/// Checks that all items have the merge key.
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

/// The kind of all items; there must be at least one.
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
pub(super) fn no_merge_key(item: &Map<Value>, key: &str) -> PatchError {
    PatchError::unmergeable(format_args!("map: {item:?} does not contain declared merge key: {key}"))
}
