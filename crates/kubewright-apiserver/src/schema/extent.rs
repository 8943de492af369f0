//! How large values of a schema may be, which decides what rules about them may cost.
//!
//! Where a schema sets no limit, a request does: nothing is larger than the largest body that the server takes.

use kubewright_core::{Map, Str, Value};

use super::{Additional, Schema};
use crate::cel::{Extent, escape};

/// The largest request that is taken, in bytes.
const REQUEST: u64 = 3 << 20;
/// The shortest values in JSON, and the longest ones of formats.
const SHORTEST_TEXT: u64 = 2;
const SHORTEST_BOOL: u64 = 4;
const SHORTEST_NUMBER: u64 = 1;
const SHORTEST_DURATION: u64 = 3;
const SHORTEST_TIME: u64 = 21;
const LONGEST_TIME: u64 = 32;
const DATE: u64 = 12;
/// Bytes of a character at most.
const CHARACTER: u64 = 4;

/// The extent of values, and the fewest bytes that one of them takes in JSON.
pub(super) struct Measured {
    pub(super) extent: Extent,
    pub(super) shortest: u64,
}

impl Measured {
    fn of(max: u64, shortest: u64) -> Self {
        Measured { extent: Extent { max, ..Extent::default() }, shortest }
    }

    /// How many of them fit into a request.
    pub(super) fn most(&self) -> u64 {
        REQUEST / (self.shortest + 1)
    }
}

impl Schema {
    /// How large values may be; `None` where rules cannot see them.
    pub(super) fn measure(&self, is_object: bool) -> Option<Measured> {
        let longest = |unlimited: u64| self.bounds.max_length.map_or(unlimited, |length| length as u64 * CHARACTER);
        if self.int_or_string {
            return Some(Measured::of(longest(REQUEST - 2), SHORTEST_NUMBER));
        }
        Some(match (&*self.ty, &*self.format) {
            ("boolean", _) => Measured::of(0, SHORTEST_BOOL),
            ("integer" | "number", _) => Measured::of(0, SHORTEST_NUMBER),
            ("string", "byte") => {
                let max = self.bounds.max_length.map_or(REQUEST - 2, |length| length as u64);
                Measured::of(max, SHORTEST_TEXT)
            }
            ("string", "duration") => Measured::of(LONGEST_TIME, SHORTEST_DURATION),
            ("string", "date") => Measured::of(DATE, DATE),
            ("string", "date-time") => Measured::of(LONGEST_TIME, SHORTEST_TIME),
            ("string", _) => {
                let texts = self.values.as_deref().unwrap_or_default();
                let listed = texts.iter().filter_map(Value::as_str).map(str::len).max().map(|length| length as u64);
                Measured::of(longest(listed.unwrap_or(REQUEST - 2)), SHORTEST_TEXT)
            }
            ("array", _) => {
                let items = self.items.as_deref()?.measure(false)?;
                let max = self.bounds.max_items.map_or((REQUEST - 2) / (items.shortest + 1), |max| max as u64);
                container(max, items, false)
            }
            ("object", _) => match &self.additional {
                Some(Additional::Schema(values)) => {
                    let values = values.measure(false)?;
                    let unlimited = (REQUEST - 2) / (values.shortest + 6);
                    container(self.bounds.max_properties.map_or(unlimited, |max| max as u64), values, true)
                }
                _ => self.measure_fields(is_object || self.embedded_resource),
            },
            _ => return None,
        })
    }

    fn measure_fields(&self, is_object: bool) -> Measured {
        let mut fields: Map<Extent> = Map::new();
        let mut shortest = 2;
        for (name, schema) in self.properties.iter() {
            let Some(measured) = schema.measure(false) else { continue };
            if self.required.contains(name) && schema.default.is_none() {
                shortest += name.len() as u64 + measured.shortest + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped, measured.extent);
            }
        }
        if is_object {
            let text = || Extent { max: REQUEST - 2, ..Extent::default() };
            let names = ["name", "generateName"].map(|name| (Str::from(name), text()));
            fields.insert("apiVersion", text());
            fields.insert("kind", text());
            fields.insert("metadata", Extent { fields: names.into_iter().collect(), ..Extent::default() });
        }
        Measured { extent: Extent { fields, ..Extent::default() }, shortest }
    }
}

fn container(max: u64, items: Measured, has_keys: bool) -> Measured {
    let items = Some(Box::new(items.extent));
    let keys = has_keys.then_some(0);
    Measured { extent: Extent { max, items, keys, ..Extent::default() }, shortest: 2 }
}
