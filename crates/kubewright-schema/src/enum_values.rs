//! `enum`: allowed values, indexed if there are many.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;

use kubewright_core::Value;

/// The number of values up to which a linear search is used.
const FEW: usize = 8;

/// The allowed values in their order.
#[derive(Debug, Clone)]
pub(crate) struct EnumValues {
    values: Vec<Value>,
    /// Values by their JSON, empty if there are few. An integer and a float can have equal JSON.
    by_text: HashMap<String, Vec<Value>>,
}

impl EnumValues {
    /// Indexes the values.
    pub(crate) fn new(values: &[Value]) -> Self {
        let mut by_text: HashMap<String, Vec<Value>> = HashMap::new();
        if values.len() > FEW {
            let mut known = HashSet::new();
            for value in values {
                let text = value.to_string();
                // Skip duplicates.
                if known.insert((text.clone(), matches!(value, Value::Int(_)))) {
                    by_text.entry(text).or_default().push(value.clone());
                }
            }
        }
        EnumValues { values: values.to_vec(), by_text }
    }

    /// Whether a value is allowed.
    pub(crate) fn contains(&self, value: &Value) -> bool {
        if self.values.len() <= FEW {
            return self.values.contains(value);
        }
        self.by_text.get(&value.to_string()).is_some_and(|values| values.contains(value))
    }
}

impl Deref for EnumValues {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_agrees_with_a_linear_search() {
        let all: Vec<Value> = ["null", "true", "1", "1.0", "\"1\"", "[1]", "{\"a\":1}", "\"a\"", "\"b\"", "\"a\""]
            .map(|text| text.parse().expect("valid JSON"))
            .into();
        let (many, few) = (EnumValues::new(&all), EnumValues::new(&all[..FEW]));
        for value in &all[..FEW] {
            assert!(many.contains(value) && few.contains(value), "{value}");
        }
        for other in ["false", "2", "2.0", "\"2\"", "[2]", "{}", "\"true\"", "\"null\""] {
            let other: Value = other.parse().expect("valid JSON");
            assert!(!many.contains(&other) && !few.contains(&other), "{other}");
        }
    }
}
