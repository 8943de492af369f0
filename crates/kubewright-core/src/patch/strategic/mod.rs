//! Strategic merge patch: a merge patch that knows the types, so that lists of objects merge by a key.
//!
//! Directives stand among the fields of a patch: `$patch` (`replace` or `delete`) for the object or list item it is in,
//! `$retainKeys` for the fields of an object that may stay, `$setElementOrder/FIELD` and
//! `$deleteFromPrimitiveList/FIELD` for a list beside them. How maps merge is here, lists are in `list`,
//! and what a field's type says of both is in `schema`.

mod list;
mod order;
mod schema;

use std::collections::{BTreeMap, HashSet};

use crate::patch::PatchError;
use crate::patch::merge_patch::without_nulls;
use crate::scheme::TypeInfo;
use crate::{Map, Str, Value};
use list::{ListRules, merge_list};
use order::set_order;
use schema::Schema;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The fields of an object that is being merged.
type Fields = BTreeMap<Str, Value>;

/// What `target`, an object of the type `schema`, becomes by a strategic merge patch.
///
/// New items of a list come before those they have no known order with, that is, at the front.
///
/// # Errors
/// When the patch is not an object, has an unknown directive, lacks a merge key, or does not fit the type.
#[doc(alias = "StrategicMergePatch")]
#[inline]
pub fn strategic_merge(target: &Value, patch: &Value, schema: &'static TypeInfo) -> Result<Value, PatchError> {
    let Some(patch) = patch.as_object() else {
        let kind = patch.kind();
        let message = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
        return Err(PatchError::Malformed(message));
    };
    let target = target.as_object().cloned().unwrap_or_default();
    merge_map(target, patch, Schema::Object(schema)).map(Value::Object)
}

#[inline]
fn merge_map(original: Map<Value>, patch: &Map<Value>, schema: Schema) -> Result<Map<Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                let mut replacement = patch.clone();
                replacement.remove(DIRECTIVE);
                Ok(replacement)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    // A tree, because a patch may add and remove as many fields as there are.
    let mut original: Fields = original.into_iter().collect();
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut original, patch, keys)?;
    }
    let mut done: HashSet<&str> = HashSet::new();
    for (key, order) in patch.iter() {
        if let Some(field) = key.strip_prefix(SET_ORDER) {
            set_order(&mut original, field, patch.get(field), order, ListRules::of(schema, field)?)?;
            done.insert(field);
        }
    }
    for (key, value) in patch.iter() {
        if key == RETAIN_KEYS || key.starts_with(SET_ORDER) || done.contains(key.as_str()) {
            continue;
        }
        match key.strip_prefix(DELETE_FROM) {
            Some(field) => delete_from_list(&mut original, field, value, schema)?,
            None => merge_field(&mut original, key, value, schema)?,
        }
    }
    Ok(original.into_iter().collect())
}

#[inline]
fn merge_field(original: &mut Fields, key: &Str, value: &Value, schema: Schema) -> Result<(), PatchError> {
    let merged = match (original.get_mut(key.as_str()), value) {
        (_, Value::Null) => {
            original.remove(key.as_str());
            return Ok(());
        }
        (Some(Value::Object(entries)), Value::Object(patch)) => {
            let field = schema.field(key)?;
            match field.strategy() {
                Some("replace") => Some(value.clone()),
                _ => Some(Value::Object(merge_map(std::mem::take(entries), patch, field.schema())?)),
            }
        }
        (Some(Value::Array(items)), Value::Array(patch)) => {
            let rules = ListRules::of(schema, key)?;
            match rules.merges {
                true => Some(Value::Array(merge_list(std::mem::take(items), patch, &rules)?)),
                false => Some(value.clone()),
            }
        }
        (_, value) => without_directives(&without_nulls(value)),
    };
    match merged {
        Some(merged) => original.insert(key.clone(), merged),
        None => original.remove(key.as_str()),
    };
    Ok(())
}

/// Removes from a list of scalars those that the patch lists.
#[inline]
fn delete_from_list(original: &mut Fields, field: &str, value: &Value, schema: Schema) -> Result<(), PatchError> {
    match (original.get_mut(field), value) {
        (_, Value::Null) => {
            original.remove(field);
        }
        (Some(Value::Array(items)), Value::Array(unwanted)) => {
            ListRules::of(schema, field)?;
            let unwanted = order::positions(unwanted, None);
            items.retain(|item| !unwanted.contains_key(&order::identity(item)));
        }
        _ => {}
    }
    Ok(())
}

/// Removes the fields that a patch does not want to stay; those that it sets have to be among those that stay.
#[inline]
fn retain_keys(original: &mut Fields, patch: &Map<Value>, keys: &Value) -> Result<(), PatchError> {
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let keys = keys.as_array().ok_or_else(malformed)?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let stays = |key: &str| keys.contains(key);
    let directive = |key: &str| key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !directive(key) && !stays(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| stays(key));
    Ok(())
}

/// The value without the objects in it that carry a `$patch`: there is nothing that they could change.
#[inline]
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => Some(Value::Object(
            entries.iter().filter_map(|(key, value)| Some((key.clone(), without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(without_directives).collect())),
        scalar => Some(scalar.clone()),
    }
}

#[inline]
fn unknown_directive(directive: &Value, patch: &Map<Value>) -> PatchError {
    PatchError::unmergeable(format_args!("unknown patch type: {directive} in map: {patch:?}"))
}

#[cfg(test)]
mod tests;
