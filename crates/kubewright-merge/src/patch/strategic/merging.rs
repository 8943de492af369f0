//! Merges maps and lists, which contain each other.

use std::collections::{BTreeMap, HashSet};

use kubewright_core::{List, Map, Str, Value};

use super::directives::{DELETE_FROM, DIRECTIVE, RETAIN_KEYS, SET_ORDER, unknown_directive, without_directives};
use super::items::{ListRules, bad_type, check_merge_keys, kind_of_items, no_merge_key};
use super::order::{identity, in_order, key_of, positions};
use super::schema::PatchSchema;
use crate::patch::error::PatchError;
use crate::patch::merge_patch::without_nulls;

/// The fields of an object that is being merged.
type Fields = BTreeMap<Str, Value>;

/// Merges a patch into an object.
#[inline]
pub(super) fn merge_map(
    original: Map<Value>,
    patch: &Map<Value>,
    schema: PatchSchema,
) -> Result<Map<Value>, PatchError> {
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
    // A tree map, because a patch may add and remove many fields.
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
fn merge_field(original: &mut Fields, key: &Str, value: &Value, schema: PatchSchema) -> Result<(), PatchError> {
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
            if rules.merges {
                Some(Value::Array(merge_list(std::mem::take(items), patch, &rules)?))
            } else {
                Some(value.clone())
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

/// Removes the listed scalars from a list.
#[inline]
fn delete_from_list(original: &mut Fields, field: &str, value: &Value, schema: PatchSchema) -> Result<(), PatchError> {
    match (original.get_mut(field), value) {
        (_, Value::Null) => {
            original.remove(field);
        }
        (Some(Value::Array(items)), Value::Array(unwanted)) => {
            ListRules::of(schema, field)?;
            let unwanted = positions(unwanted, None);
            items.retain(|item| !unwanted.contains_key(&identity(item)));
        }
        _ => {}
    }
    Ok(())
}

/// Removes fields that are not retained; fields that the patch sets must be retained.
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

/// Merges a patch into a list.
#[inline]
fn merge_list(original: List<Value>, patch: &[Value], rules: &ListRules) -> Result<List<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    match kind_of_items(original.iter().chain(patch))? {
        "object" => merge_objects(original, patch, rules),
        _ => Ok(merge_scalars(original, patch)),
    }
}

/// The union: items of the patch in its order, all others in their previous order.
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
    let mut items: Vec<Value> = if replace {
        additions.drain(..).cloned().map(Value::Object).collect()
    } else {
        original.into_iter().filter(|item| !deleted.contains(&identity(key_of(item, Some(key))))).collect()
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

/// Merges a list and orders it by a `$setElementOrder` directive.
#[inline]
fn set_order(
    original: &mut Fields,
    field: &str,
    patch: Option<&Value>,
    order: &Value,
    rules: ListRules,
) -> Result<(), PatchError> {
    let expect_list = |value: &Value| value.as_array().cloned().ok_or_else(|| bad_type("[]interface {}", value));
    let order = expect_list(order)?;
    let live = original.get(field).map(expect_list).transpose()?;
    let patch = patch.map(expect_list).transpose()?;
    check_order(patch.as_deref().unwrap_or_default(), &order, rules.key)?;

    let kind = kind_of_items(live.iter().flatten().chain(patch.iter().flatten()));
    let before = match (&live, &patch, rules.key) {
        (Some(live), Some(patch), Some(key)) if rules.merges => live_order(live, patch, key),
        _ => live.iter().flatten().map(|item| key_of(item, rules.key).clone()).collect(),
    };
    let merged = match (live, patch) {
        (None, None) => return Ok(()),
        (Some(live), None) => live,
        (Some(live), Some(patch)) if rules.merges => merge_list(live, &patch, &rules)?,
        (Some(_), Some(patch)) => patch,
        (None, Some(patch)) => patch.iter().filter_map(without_directives).collect(),
    };
    if let (Some(key), "object") = (rules.key, kind?) {
        check_merge_keys(&merged, key)?;
        check_merge_keys(&order, key)?;
    }
    let wanted: Vec<Value> = order.iter().map(|item| key_of(item, rules.key).clone()).collect();
    original.insert(field.into(), Value::Array(in_order(merged.into_iter().collect(), &wanted, &before, rules.key)));
    Ok(())
}

/// The merge keys of a live list, as the reference for the order of the merged list.
///
/// New items take the places of deleted ones at the end. Go's implementation deletes and appends in
/// the array that it later reads as the live list, and clients see the order that results.
fn live_order(live: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let id = |item: &Value| identity(key_of(item, Some(key)));
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    let replaces = patch.iter().any(|item| directive(item).as_deref() == Some("replace"));
    let with_directive = |item: &&Value| directive(item).as_deref() == Some("delete");
    let deleted: HashSet<String> = patch.iter().filter(with_directive).map(id).collect();
    if replaces || deleted.is_empty() {
        return live.iter().map(|item| key_of(item, Some(key)).clone()).collect();
    }
    let kept = live.iter().filter(|item| !deleted.contains(&id(item)));
    let mut known: HashSet<String> = kept.clone().map(id).collect();
    let added = patch.iter().filter(|item| directive(item).is_none() && known.insert(id(item)));
    kept.chain(added).take(live.len()).map(|item| key_of(item, Some(key)).clone()).collect()
}

/// Checks that the items of a patch, except deletions, follow its own order.
#[inline]
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter().map(|item| identity(key_of(item, key)));
    let mut listed = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
    if listed.all(|item| order_left.any(|id| id == identity(key_of(item, key)))) {
        return Ok(());
    }
    Err(PatchError::unmergeable(format_args!(
        "The order in patch list:\n{patch:?}\n doesn't match {SET_ORDER} list:\n{order:?}\n"
    )))
}
