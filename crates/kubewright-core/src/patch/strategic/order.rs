//! In which order a merged list comes out.
//!
//! Two orders have to be kept: that of the patch among the items it names, and that of the live list among all
//! others. Where an item of each could come next, the live list decides if it knows both; otherwise the patch goes first.

use std::collections::HashMap;

use super::list::{ListRules, bad_type, check_merge_keys, kind_of_items, merge_list};
use super::without_directives;
use super::{DIRECTIVE, Fields};
use crate::patch::PatchError;
use crate::{List, Value};

/// Merges a list and puts it into the order that a `$setElementOrder` directive asks for.
#[inline]
pub(super) fn set_order(
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
    let before: Vec<Value> = live.iter().flatten().map(|item| key_of(item, rules.key).clone()).collect();
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

/// The items of a patch have to be in the order that it asks for, as far as they do not delete.
#[inline]
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter().map(|item| identity(key_of(item, key)));
    let mut listed = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
    match listed.all(|item| order_left.any(|id| id == identity(key_of(item, key)))) {
        true => Ok(()),
        false => Err(PatchError::unmergeable(format_args!(
            "The order in patch list:\n{patch:?}\n doesn't match {} list:\n{order:?}\n",
            super::SET_ORDER
        ))),
    }
}

/// Puts items in order: those that the patch wants as it wants them, the others as they were before.
///
/// Both orders are lists of merge keys, or of the items themselves where there is no key.
#[inline]
pub(super) fn in_order(items: Vec<Value>, wanted: &[Value], before: &[Value], key: Option<&str>) -> List<Value> {
    let (wanted, before) = (positions(wanted, None), positions(before, None));
    let mut patched = Vec::new();
    let mut live_only = Vec::new();
    for item in items {
        let id = identity(key_of(&item, key));
        let was = before.get(&id).copied();
        match wanted.get(&id) {
            Some(&place) => patched.push((place, was, item)),
            None => live_only.push((was.unwrap_or(usize::MAX), was, item)),
        }
    }
    patched.sort_by_key(|(place, ..)| *place);
    live_only.sort_by_key(|(place, ..)| *place);

    let mut merged = List::new();
    let mut live_only = live_only.into_iter().peekable();
    for (_, was, item) in patched {
        while let Some((_, _, earlier)) =
            live_only.next_if(|(_, live, _)| matches!((live, was), (Some(live), Some(was)) if *live < was))
        {
            merged.push(earlier);
        }
        merged.push(item);
    }
    merged.extend(live_only.map(|(_, _, item)| item));
    merged
}

/// What identifies an item: the value of its merge key, or the item itself.
#[inline]
pub(super) fn key_of<'v>(item: &'v Value, key: Option<&str>) -> &'v Value {
    match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    }
}

/// Text that is the same for values that are the same, whole numbers by their value.
#[inline]
pub(super) fn identity(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Value::Int(*number as i64).to_string(),
        value => value.to_string(),
    }
}

/// Where each item is found first.
#[inline]
pub(super) fn positions(items: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut positions = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        positions.entry(identity(key_of(item, key))).or_insert(index);
    }
    positions
}
