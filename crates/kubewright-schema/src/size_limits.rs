//! Size limits of values, for the cost estimates of rules.
//!
//! Where a schema sets no limit, the size limit of requests is the limit.

use std::collections::HashSet;

use kubewright_cel::{SizeLimits, escape_field_name};
use kubewright_core::{Map, Str, Value};

use crate::schema::{AdditionalProperties, Schema};

/// The size limit of a request, in bytes.
const MAX_REQUEST: u64 = 3 << 20;
// The lengths of the shortest values in JSON, and of the longest values of formats.
const SHORTEST_TEXT: u64 = 2;
const SHORTEST_BOOL: u64 = 4;
const SHORTEST_NUMBER: u64 = 1;
const SHORTEST_DURATION: u64 = 3;
const SHORTEST_TIME: u64 = 21;
const LONGEST_TIME: u64 = 32;
const DATE: u64 = 12;
/// The highest number of bytes of a character.
const CHARACTER: u64 = 4;

/// The size limits of values of a schema, and the length of the shortest one in JSON.
pub(crate) struct ValueSize {
    pub(crate) limits: SizeLimits,
    pub(crate) shortest: u64,
}

impl ValueSize {
    fn new(max: u64, shortest: u64) -> Self {
        ValueSize { limits: SizeLimits::scalar(max), shortest }
    }

    /// The number of such values that fit into a request.
    pub(crate) fn max_count(&self) -> u64 {
        MAX_REQUEST / (self.shortest + 1)
    }
}

impl Schema {
    /// The size of values, `None` if rules cannot access them.
    pub(crate) fn value_size(&self, is_object: bool) -> Option<ValueSize> {
        let longest = |unlimited: u64| self.bounds.max_length.map_or(unlimited, |length| length as u64 * CHARACTER);
        if self.int_or_string {
            return Some(ValueSize::new(longest(MAX_REQUEST - 2), SHORTEST_NUMBER));
        }
        Some(match (&*self.ty, &*self.format) {
            ("boolean", _) => ValueSize::new(0, SHORTEST_BOOL),
            ("integer" | "number", _) => ValueSize::new(0, SHORTEST_NUMBER),
            ("string", "byte") => {
                let max = self.bounds.max_length.map_or(MAX_REQUEST - 2, |length| length as u64);
                ValueSize::new(max, SHORTEST_TEXT)
            }
            ("string", "duration") => ValueSize::new(LONGEST_TIME, SHORTEST_DURATION),
            ("string", "date") => ValueSize::new(DATE, DATE),
            ("string", "date-time") => ValueSize::new(LONGEST_TIME, SHORTEST_TIME),
            ("string", _) => {
                let texts = self.enum_values.as_deref().unwrap_or_default();
                let listed = texts.iter().filter_map(Value::as_str).map(str::len).max().map(|length| length as u64);
                ValueSize::new(longest(listed.unwrap_or(MAX_REQUEST - 2)), SHORTEST_TEXT)
            }
            ("array", _) => {
                let items = self.items.as_deref()?.value_size(false)?;
                let max = self.bounds.max_items.map_or((MAX_REQUEST - 2) / (items.shortest + 1), |max| max as u64);
                container(max, items, false)
            }
            ("object", _) => match &self.additional {
                Some(AdditionalProperties::Schema(values)) => {
                    let values = values.value_size(false)?;
                    let unlimited = (MAX_REQUEST - 2) / (values.shortest + 6);
                    container(self.bounds.max_properties.map_or(unlimited, |max| max as u64), values, true)
                }
                _ => self.object_size(is_object || self.embedded_resource),
            },
            _ => return None,
        })
    }

    fn object_size(&self, is_object: bool) -> ValueSize {
        let mut fields: Map<SizeLimits> = Map::new();
        let mut shortest = 2;
        let required: HashSet<&Str> = self.required.iter().collect();
        for (name, schema) in self.properties.iter() {
            let Some(size) = schema.value_size(false) else { continue };
            if required.contains(name) && schema.default.is_none() {
                shortest += name.len() as u64 + size.shortest + 4;
            }
            if let Some(escaped) = escape_field_name(name) {
                fields.insert(escaped, size.limits);
            }
        }
        if is_object {
            let text = || SizeLimits::scalar(MAX_REQUEST - 2);
            let names = ["name", "generateName"].map(|name| (Str::from(name), text()));
            fields.insert("apiVersion", text());
            fields.insert("kind", text());
            fields.insert("metadata", SizeLimits { fields: names.into_iter().collect(), ..SizeLimits::default() });
        }
        ValueSize { limits: SizeLimits { fields, ..SizeLimits::default() }, shortest }
    }
}

fn container(max: u64, items: ValueSize, has_keys: bool) -> ValueSize {
    let items = Some(Box::new(items.limits));
    let keys = has_keys.then_some(0);
    ValueSize { limits: SizeLimits { max, items, keys, ..SizeLimits::default() }, shortest: 2 }
}
