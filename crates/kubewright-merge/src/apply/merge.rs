//! Merges a configuration into an object: fields of the configuration win, all others stay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::field_set::Element;
use super::schema::{MergeSchema, ValueParts};
use kubewright_core::{List, MapBuilder, Value};

/// `live` with `config` merged into it.
///
/// List items that both have follow the order of the configuration; the others keep their position
/// between them.
pub fn merge(live: &Value, config: &Value, schema: MergeSchema<'_>) -> Value {
    merged(Some(live), Some(config), schema).unwrap_or_default()
}

fn merged(live: Option<&Value>, config: Option<&Value>, schema: MergeSchema<'_>) -> Option<Value> {
    if config.is_none() {
        return live.cloned();
    }
    match schema.parts(live, config) {
        ValueParts::Leaf => config.cloned(),
        ValueParts::Map(live, config) => {
            let mut out = MapBuilder::new();
            for (key, before) in live.into_iter().flat_map(|entries| entries.iter()) {
                let wanted = config.and_then(|entries| entries.get(key));
                if let Some(value) = merged(Some(before), wanted, schema.field_or_any(key)) {
                    out.insert(key.clone(), value);
                }
            }
            for (key, value) in config.into_iter().flat_map(|entries| entries.iter()) {
                if live.is_none_or(|entries| !entries.contains_key(key))
                    && let Some(value) = merged(None, Some(value), schema.field_or_any(key))
                {
                    out.insert(key.clone(), value);
                }
            }
            Some(Value::Object(out.finish()))
        }
        ValueParts::List(live, config) => Some(Value::Array(merge_items(live, config, schema))),
    }
}

fn merge_items(live: &[Value], config: &[Value], schema: MergeSchema<'_>) -> List<Value> {
    let elements = |items: &[Value]| -> Vec<Element> {
        items.iter().map(|item| schema.element(item).unwrap_or_else(|_| Element::value(item))).collect()
    };
    let (live_elements, config_elements) = (elements(live), elements(config));
    let mut live_of = BTreeMap::new();
    for (element, item) in live_elements.iter().zip(live) {
        live_of.entry(element).or_insert(item);
    }
    let config_of: BTreeMap<_, _> = config_elements.iter().zip(config).collect();
    let merged_item = |element: &Element| {
        merged(live_of.get(element).copied(), config_of.get(element).copied(), schema.item()).unwrap_or_default()
    };
    // Shared items in the order of the configuration; the front is the next one to emit.
    let mut shared: VecDeque<_> = config_elements.iter().filter(|element| live_of.contains_key(*element)).collect();
    let mut emitted = BTreeSet::new();
    let (mut out, mut live_at, mut config_at) = (List::new(), 0, 0);
    loop {
        let (live_element, config_element) = (live_elements.get(live_at), config_elements.get(config_at));
        match (live_element, config_element) {
            (None, None) => return out,
            (Some(live_element), Some(config_element)) if live_element == config_element => {
                out.push(merged_item(live_element));
                emitted.insert(live_element);
                shared.pop_front();
                live_at += 1;
                config_at += 1;
                continue;
            }
            (Some(live_element), Some(_))
                if config_of.contains_key(live_element) && shared.front().is_some_and(|next| *next != live_element) =>
            {
                live_at += 1;
                continue;
            }
            _ => {}
        }
        if let Some(live_element) = live_element {
            if !config_of.contains_key(live_element) {
                out.push(live[live_at].clone());
                live_at += 1;
                continue;
            }
            if emitted.contains(live_element) {
                live_at += 1;
            }
        }
        if let Some(config_element) = config_element {
            out.push(merged_item(config_element));
            emitted.insert(config_element);
            config_at += 1;
            if shared.front() == Some(&config_element) {
                shared.pop_front();
            }
        } else if live_element.is_some_and(|live_element| !emitted.contains(live_element)) {
            // Unreachable while all shared items come from the configuration; guarantees progress.
            live_at += 1;
        }
    }
}
