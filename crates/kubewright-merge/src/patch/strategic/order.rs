//! The order of a merged list.
//!
//! Two orders are kept: that of the patch among its items, and that of the live list among all
//! others. If an item of each could be next, the live list decides if it contains both; otherwise
//! the patch item goes first.

use std::collections::HashMap;

use kubewright_core::{List, Value};

/// Orders items: those of the patch as requested, the others as before.
///
/// Both orders are lists of merge keys, or of the items themselves if there is no key.
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

/// The identity of an item: the value of its merge key, or the item itself.
#[inline]
pub(super) fn key_of<'v>(item: &'v Value, key: Option<&str>) -> &'v Value {
    match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    }
}

/// A text that is equal for equal values; integers compare by value.
#[inline]
pub(super) fn identity(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Value::Int(*number as i64).to_string(),
        value => value.to_string(),
    }
}

/// The first position of each item.
#[inline]
pub(super) fn positions(items: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut positions = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        positions.entry(identity(key_of(item, key))).or_insert(index);
    }
    positions
}
