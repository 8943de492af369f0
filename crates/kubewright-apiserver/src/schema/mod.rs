//! The schemas that CustomResourceDefinitions give to their objects.
//!
//! A [`Schema`] is read once from the definition. `pruning` drops what it does not know, `defaulting` fills in what it
//! says, `validation` says what is wrong in the server's words, and `structural`, with `alternatives`, says what is wrong with a schema itself.
//! `rules` asks the rules in CEL, `rule_checks` and `rule_costs` say which of them cannot be asked. All of it works on trees and knows nothing of requests.

mod alternatives;
mod defaulting;
mod embedded;
mod extent;
mod format;
mod lists;
mod path;
mod pattern;
mod pruning;
mod reading;
mod rule_checks;
mod rule_costs;
mod rules;
mod scale;
mod structural;
#[cfg(test)]
mod tests;
mod unsupported;
mod validation;

use kubewright_core::{Map, Str, Value};

pub(crate) use format::{fits as has_format, parse_duration};
pub(crate) use scale::{of_spec as scale_spec, of_status as scale_status};
pub(crate) use structural::complaints as structural_complaints;

use pattern::Pattern;
use rules::Rule;

/// What a value may be, as one place of a definition describes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    /// The type, empty where any is allowed.
    ty: Str,
    format: Str,
    nullable: bool,
    default: Option<Value>,
    properties: Map<Schema>,
    additional: Option<Additional>,
    items: Option<Box<Schema>>,
    required: Vec<Str>,
    bounds: Bounds,
    values: Option<Vec<Value>>,
    pattern: Option<Pattern>,
    unique_items: bool,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    preserve_unknown: bool,
    embedded_resource: bool,
    int_or_string: bool,
    list_type: ListType,
    list_map_keys: Vec<Str>,
    /// Whether a map is one value, so that nothing in it can be recognized in another.
    is_atomic: bool,
    rules: Vec<Rule>,
    /// Whether defaults are anywhere in it, so that others need not be walked for them.
    has_defaults: bool,
    /// Whether rules in CEL are anywhere in it.
    has_rules: bool,
}

/// What keys without a property of their own may hold.
#[derive(Debug, Clone)]
enum Additional {
    /// Anything, or nothing at all.
    Any(bool),
    /// Values of this schema.
    Schema(Box<Schema>),
}

/// How large a value may be, each limit where there is one.
#[derive(Debug, Clone, Default)]
struct Bounds {
    minimum: Option<f64>,
    exclusive_minimum: bool,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
}

/// What makes two items of a list the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ListType {
    /// Nothing: the list is one value.
    #[default]
    Atomic,
    /// Their values.
    Set,
    /// Some of their fields.
    Map,
}

impl Schema {
    /// The schema of a field of an object.
    fn of_field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            _ => None,
        }
    }

    /// Whether it has more to say than its structure does.
    fn has_alternatives(&self) -> bool {
        !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none())
    }

    /// Whether `null` stands here for a value that is left out.
    fn drops_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    /// What an object looks like that was stored under another schema; `None` if it looks the same.
    pub(crate) fn view(&self, object: &Value) -> Option<Value> {
        if !self.would_prune(object) && !self.would_default(object) {
            return None;
        }
        let mut view = object.clone();
        self.complete(&mut view);
        Some(view)
    }

    /// What an object looks like of which nothing is known but this schema; `None` if it looks the same.
    ///
    /// Nothing is filled in: an object has the defaults of the version that it is stored in.
    pub(crate) fn pruned_view(&self, object: &Value) -> Option<Value> {
        self.would_prune(object).then(|| {
            let mut view = object.clone();
            self.prune(&mut view);
            view
        })
    }

    /// Drops what is unknown and fills in what is missing. Returns the paths of what was dropped, in order.
    pub(crate) fn complete(&self, object: &mut Value) -> Vec<String> {
        let dropped = self.prune(object);
        self.fill_in(object);
        dropped
    }
}

impl Schema {
    /// Drops what is unknown and fills in what is missing of what was applied. Returns the paths of what was dropped.
    ///
    /// Whoever applies `null` says that it should be there.
    pub(crate) fn complete_applied(&self, object: &mut Value) -> Vec<String> {
        let dropped = self.prune(object);
        self.fill_in_only(object);
        dropped
    }
}

/// Fields that every object has, which a schema does not restrict.
fn is_object_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// What a rule costs at most for one value of a schema, without those around it.
#[cfg(test)]
pub(crate) fn rule_cost(schema: &str, rule: &str) -> u64 {
    let schema = Schema::read(&schema.parse().expect("valid JSON"));
    let (ty, measured) = (schema.cel_type(false).expect("a type"), schema.measure(false).expect("an extent"));
    let environment = rules::environment(&ty, false);
    let program = crate::cel::Program::compile(rule, &environment).expect("a valid rule");
    program.max_cost(&environment, &measured.extent)
}
