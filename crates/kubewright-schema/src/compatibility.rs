//! Whether a schema accepts everything that another one accepts.
//!
//! The comparison is conservative: what it cannot decide, such as a changed alternative of `anyOf`
//! or a changed CEL rule, counts as incompatible, and the message says so. Ratcheting of unchanged
//! values is ignored, because it helps updates only, not writers.

use kubewright_core::{Map, Value};

/// A change that makes objects invalid, or removes fields of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatibility {
    /// The path of the field, such as `spec.ports[].port`; empty for the whole object.
    pub path: String,
    /// The change, as the rest of a sentence that begins with the path.
    pub change: String,
}

/// The changes from one schema to another that break objects, in the order of their paths.
///
/// ```
/// use kubewright_core::json;
/// use kubewright_schema::incompatibilities;
///
/// let old = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
/// let new = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}});
/// let found = incompatibilities(&old, &new);
/// assert_eq!((found[0].path.as_str(), found[0].change.as_str()), ("size", "has a new maximum, 3"));
/// assert!(incompatibilities(&new, &old).is_empty());
/// ```
pub fn incompatibilities(old: &Value, new: &Value) -> Vec<Incompatibility> {
    let mut comparison = SchemaComparison { found: Vec::new() };
    comparison.schema("", old, new);
    comparison.found
}

struct SchemaComparison {
    found: Vec<Incompatibility>,
}

/// How a bound restricts values.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    Lower,
    Upper,
}

const BOUNDS: [(&str, Bound, &str); 8] = [
    ("minimum", Bound::Lower, "minimum"),
    ("maximum", Bound::Upper, "maximum"),
    ("minLength", Bound::Lower, "minimum length"),
    ("maxLength", Bound::Upper, "maximum length"),
    ("minItems", Bound::Lower, "minimum number of items"),
    ("maxItems", Bound::Upper, "maximum number of items"),
    ("minProperties", Bound::Lower, "minimum number of entries"),
    ("maxProperties", Bound::Upper, "maximum number of entries"),
];

/// Keywords that can only be compared for equality.
const OPAQUE: [(&str, &str); 7] = [
    ("pattern", "pattern"),
    ("format", "format"),
    ("multipleOf", "divisor"),
    ("allOf", "condition (allOf)"),
    ("anyOf", "condition (anyOf)"),
    ("oneOf", "condition (oneOf)"),
    ("not", "condition (not)"),
];

/// The end of a message about a keyword or rule that replaces another one.
const UNDECIDED: &str = "whether it accepts what the former one accepted cannot be decided";

/// Keywords that restrict values when they are true.
const FLAGS: [(&str, &str); 4] = [
    ("uniqueItems", "must have unique items now"),
    ("exclusiveMinimum", "excludes its minimum now"),
    ("exclusiveMaximum", "excludes its maximum now"),
    ("x-kubernetes-embedded-resource", "must be a Kubernetes object now"),
];

impl SchemaComparison {
    fn add(&mut self, path: &str, change: String) {
        self.found.push(Incompatibility { path: path.to_owned(), change });
    }

    fn schema(&mut self, path: &str, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        if let Some(change) = type_change(old, new) {
            self.add(path, change);
            return;
        }
        if flag(old, "nullable") && !flag(new, "nullable") {
            self.add(path, "may no longer be null".to_owned());
        }
        for (keyword, bound, name) in BOUNDS {
            self.bound(path, keyword, bound, name, old, new);
        }
        for (keyword, name) in OPAQUE {
            match (old.get(keyword), new.get(keyword)) {
                (before, Some(after)) if before != Some(after) && keyword == "multipleOf" && divides(after, before) => {
                }
                (None, Some(after)) => self.add(path, format!("has a new {name}, {}", shown(after))),
                (Some(before), Some(after)) if before != after => {
                    let (after, before) = (shown(after), shown(before));
                    self.add(path, format!("has another {name}, {after} instead of {before}; {UNDECIDED}"));
                }
                _ => {}
            }
        }
        for (keyword, change) in FLAGS {
            if flag(new, keyword) && !flag(old, keyword) {
                self.add(path, change.to_owned());
            }
        }
        self.values(path, old, new);
        self.rules(path, old, new);
        self.merging(path, old, new);
        self.members(path, old, new);
        if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
            self.schema(&format!("{path}[]"), old, new);
        }
    }

    fn bound(&mut self, path: &str, keyword: &str, bound: Bound, name: &str, old: &Value, new: &Value) {
        let Some(after) = new.get(keyword).and_then(Value::as_f64) else { return };
        let before = old.get(keyword).and_then(Value::as_f64);
        // Every length and number of items is at least zero.
        let says_nothing = bound == Bound::Lower && keyword != "minimum" && after <= 0.0;
        let after = || shown(new.get(keyword).expect("it is a number four lines up"));
        match before {
            _ if says_nothing => {}
            None => self.add(path, format!("has a new {name}, {}", after())),
            Some(before) => {
                let limit = new.get(keyword).and_then(Value::as_f64).unwrap_or(before);
                let is_stricter = if bound == Bound::Lower { limit > before } else { limit < before };
                if is_stricter {
                    let before = shown(old.get(keyword).expect("it is a number"));
                    self.add(path, format!("has a stricter {name}: {} instead of {before}", after()));
                }
            }
        }
    }

    /// Allowed values.
    fn values(&mut self, path: &str, old: &Value, new: &Value) {
        let Some(after) = new.get("enum").and_then(Value::as_array) else { return };
        match old.get("enum").and_then(Value::as_array) {
            None => self.add(path, format!("is restricted to {}", list(after.iter()))),
            Some(before) => {
                let removed: Vec<&Value> = before.iter().filter(|value| !after.contains(value)).collect();
                if !removed.is_empty() {
                    self.add(path, format!("may no longer be {}", list(removed.into_iter())));
                }
            }
        }
    }

    /// CEL rules.
    fn rules(&mut self, path: &str, old: &Value, new: &Value) {
        let rules = |schema: &Value| -> Vec<String> {
            let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
            let rules = rules.into_iter().flat_map(|rules| rules.iter());
            rules.filter_map(|rule| rule.get("rule")?.as_str().map(str::to_owned)).collect()
        };
        let (before, after) = (rules(old), rules(new));
        // A rule may be a looser form of one that is gone.
        let may_replace = before.iter().any(|rule| !after.contains(rule));
        for rule in after.iter().filter(|rule| !before.contains(rule)) {
            let undecided = if may_replace { format!("; {UNDECIDED}") } else { String::new() };
            self.add(path, format!("has a new rule, {rule:?}{undecided}"));
        }
    }

    /// How lists and maps merge. Lists of sets and maps must not have duplicates.
    fn merging(&mut self, path: &str, old: &Value, new: &Value) {
        let word = |schema: &Value, keyword: &str, unset: &str| {
            schema.get(keyword).and_then(Value::as_str).unwrap_or(unset).to_owned()
        };
        for (keyword, unset, what) in
            [("x-kubernetes-list-type", "atomic", "list"), ("x-kubernetes-map-type", "granular", "map")]
        {
            let (before, after) = (word(old, keyword, unset), word(new, keyword, unset));
            if before != after {
                let change =
                    format!("is a {what} of type {after} instead of {before}, so that fields have other owners");
                self.add(path, change);
            }
        }
        let keys = |schema: &Value| schema.get("x-kubernetes-list-map-keys").cloned().unwrap_or_default();
        let (before, after) = (keys(old), keys(new));
        if before != after && !before.is_null() && !after.is_null() {
            self.add(path, format!("has items with the keys {} instead of {}", shown(&after), shown(&before)));
        }
    }

    /// Properties, entries and unknown fields of an object.
    fn members(&mut self, path: &str, old: &Value, new: &Value) {
        let none = Map::default();
        let properties = |schema| -> Map<Value> { object(schema, "properties").unwrap_or(&none).clone() };
        let (before, after) = (properties(old), properties(new));
        let (old_rest, new_rest) = (Rest::of(old), Rest::of(new));
        for (name, schema) in before.iter() {
            let below = field(path, name);
            match (after.get(name), &new_rest) {
                (Some(new), _) => self.schema(&below, schema, new),
                (None, Rest::Entries(new)) => self.schema(&below, schema, new),
                (None, Rest::Preserved) => {}
                (None, Rest::Pruned) => self.add(&below, "is removed, and pruned from objects".to_owned()),
            }
        }
        for (name, schema) in after.iter().filter(|(name, _)| !before.contains_key(name)) {
            match &old_rest {
                Rest::Entries(old) => self.schema(&field(path, name), old, schema),
                Rest::Preserved if !accepts_anything(schema) => {
                    self.add(&field(path, name), "could have any value, and has a type now".to_owned());
                }
                _ => {}
            }
        }
        match (&old_rest, &new_rest) {
            (Rest::Entries(old), Rest::Entries(new)) => self.schema(&field(path, "*"), old, new),
            (Rest::Preserved, Rest::Entries(_)) => {
                self.add(path, "had entries of any type, and restricts them now".to_owned());
            }
            (Rest::Entries(_) | Rest::Preserved, Rest::Pruned) if is_object(new) => {
                self.add(path, "no longer accepts unknown fields, which are pruned from objects".to_owned());
            }
            _ => {}
        }
        self.required(path, old, new, &after);
    }

    fn required(&mut self, path: &str, old: &Value, new: &Value, properties: &Map<Value>) {
        let names = |schema: &Value| -> Vec<String> {
            let names = schema.get("required").and_then(Value::as_array);
            names.into_iter().flat_map(|names| names.iter()).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let has_default = |schema: Option<&Value>| schema.is_some_and(|schema| schema.get("default").is_some());
        let before = names(old);
        for name in names(new) {
            let after = properties.get(&name);
            let old_property = object(old, "properties").and_then(|properties| properties.get(&name));
            if !before.contains(&name) && !has_default(after) {
                self.add(&field(path, &name), "is required now, and has no default".to_owned());
            } else if has_default(old_property) && !has_default(after) {
                self.add(&field(path, &name), "is required, and its default is removed".to_owned());
            }
        }
    }
}

/// The values that an object accepts besides its properties.
enum Rest<'a> {
    /// Entries with this schema.
    Entries(&'a Value),
    /// Anything.
    Preserved,
    /// Unknown fields are pruned.
    Pruned,
}

impl<'a> Rest<'a> {
    fn of(schema: &'a Value) -> Self {
        match schema.get("additionalProperties") {
            Some(entries @ Value::Object(_)) => Rest::Entries(entries),
            Some(Value::Bool(true)) => Rest::Preserved,
            _ if flag(schema, "x-kubernetes-preserve-unknown-fields") => Rest::Preserved,
            _ => Rest::Pruned,
        }
    }
}

/// The change of a type, unless the new one includes the old one.
fn type_change(old: &Value, new: &Value) -> Option<String> {
    let ty = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        _ if flag(schema, "x-kubernetes-int-or-string") => "integer or string".to_owned(),
        Some(ty) => ty.to_owned(),
        None => "anything".to_owned(),
    };
    let (before, after) = (ty(old), ty(new));
    let includes = match (before.as_str(), after.as_str()) {
        (_, "anything") | ("integer", "number") => true,
        ("integer" | "string", "integer or string") => true,
        (before, after) => before == after,
    };
    (!includes).then(|| format!("has the type {after} instead of {before}"))
}

fn accepts_anything(schema: &Value) -> bool {
    schema.get("type").is_none() && flag(schema, "x-kubernetes-preserve-unknown-fields")
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool) == Some(true)
}

fn object<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Map<Value>> {
    schema.get(keyword).and_then(Value::as_object)
}

/// Whether every multiple of `before` is one of `after`.
fn divides(after: &Value, before: Option<&Value>) -> bool {
    let (Some(after), Some(before)) = (after.as_i64(), before.and_then(Value::as_i64)) else { return false };
    after != 0 && before.checked_rem(after) == Some(0)
}

fn field(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn list<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(shown).collect::<Vec<_>>().join(", ")
}

/// A value in a message, shortened.
fn shown(value: &Value) -> String {
    const MAX: usize = 100;
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of `spec.x` from one schema to another.
    fn changes(old: &str, new: &str) -> Vec<String> {
        let object = |x: &str| -> Value {
            let x = if x.is_empty() { "{}".to_owned() } else { format!(r#"{{"x":{x}}}"#) };
            format!(r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{x}}}}}}}"#)
                .parse()
                .unwrap()
        };
        let found = incompatibilities(&object(old), &object(new));
        found.into_iter().map(|one| format!("{} {}", one.path, one.change)).collect()
    }

    #[test]
    fn a_stricter_schema_is_incompatible_and_a_looser_one_is_not() {
        for (loose, strict, change) in [
            (r#"{"type":"integer"}"#, r#"{"type":"integer","maximum":5}"#, "spec.x has a new maximum, 5"),
            (
                r#"{"type":"integer","minimum":1}"#,
                r#"{"type":"integer","minimum":2}"#,
                "spec.x has a stricter minimum: 2 instead of 1",
            ),
            (r#"{"type":"number"}"#, r#"{"type":"integer"}"#, "spec.x has the type integer instead of number"),
            (
                r#"{"x-kubernetes-int-or-string":true}"#,
                r#"{"type":"string"}"#,
                "spec.x has the type string instead of integer or string",
            ),
            (r#"{"type":"string"}"#, r#"{"type":"string","enum":["a","b"]}"#, r#"spec.x is restricted to "a", "b""#),
            (
                r#"{"type":"string","enum":["a","b"]}"#,
                r#"{"type":"string","enum":["a"]}"#,
                r#"spec.x may no longer be "b""#,
            ),
            (r#"{"type":"string","nullable":true}"#, r#"{"type":"string"}"#, "spec.x may no longer be null"),
            (r#"{"type":"string"}"#, r#"{"type":"string","pattern":"^a"}"#, r#"spec.x has a new pattern, "^a""#),
            (r#"{"type":"string"}"#, "", "spec.x is removed, and pruned from objects"),
            (
                r#"{"type":"string"}"#,
                r#"{"type":"string","x-kubernetes-validations":[{"rule":"self != 'a'"}]}"#,
                r#"spec.x has a new rule, "self != 'a'""#,
            ),
            (
                r#"{"type":"object","properties":{"y":{"type":"string"}}}"#,
                r#"{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}"#,
                "spec.x.y is required now, and has no default",
            ),
            (
                r#"{"type":"array","items":{"type":"string"}}"#,
                r#"{"type":"array","items":{"type":"string","maxLength":3}}"#,
                "spec.x[] has a new maximum length, 3",
            ),
            (
                r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
                r#"{"type":"object","additionalProperties":{"type":"string","maxLength":3}}"#,
                "spec.x.* has a new maximum length, 3",
            ),
            (
                r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
                r#"{"type":"object"}"#,
                "spec.x no longer accepts unknown fields, which are pruned from objects",
            ),
        ] {
            assert_eq!(changes(loose, strict), [change]);
            assert_eq!(changes(strict, loose), [""; 0], "{strict} to {loose}");
        }
    }

    #[test]
    fn a_change_that_cannot_be_judged_is_incompatible_both_ways() {
        for (one, other) in [
            (r#"{"type":"string","pattern":"^a"}"#, r#"{"type":"string","pattern":"^b"}"#),
            (r#"{"type":"array","x-kubernetes-list-type":"set"}"#, r#"{"type":"array"}"#),
            (r#"{"type":"string"}"#, r#"{"type":"boolean"}"#),
        ] {
            assert_eq!((changes(one, other).len(), changes(other, one).len()), (1, 1));
        }
    }

    #[test]
    fn a_change_that_cannot_be_decided_says_so() {
        let rule = |rule: &str| format!(r#"{{"type":"integer","x-kubernetes-validations":[{{"rule":"{rule}"}}]}}"#);
        let pattern = |pattern: &str| format!(r#"{{"type":"string","pattern":"{pattern}"}}"#);
        for (old, new, change) in [
            (pattern("^a$"), pattern("^a"), r#"spec.x has another pattern, "^a" instead of "^a$"; "#),
            (rule("self < 5"), rule("self < 9"), r#"spec.x has a new rule, "self < 9"; "#),
        ] {
            assert_eq!(changes(&old, &new), [format!("{change}{UNDECIDED}")]);
        }
    }

    #[test]
    fn a_default_makes_a_required_field_compatible() {
        let optional = r#"{"type":"object","properties":{"y":{"type":"string"}}}"#;
        let defaulted = r#"{"type":"object","properties":{"y":{"type":"string","default":"a"}},"required":["y"]}"#;
        let required = r#"{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}"#;
        assert_eq!(changes(optional, defaulted), [""; 0]);
        assert_eq!(changes(defaulted, required), ["spec.x.y is required, and its default is removed"]);
    }

    #[test]
    fn a_new_property_is_compatible_unless_it_could_have_any_value() {
        let empty = r#"{"type":"object"}"#;
        let more = r#"{"type":"object","properties":{"y":{"type":"string"}}}"#;
        assert_eq!(changes(empty, more), [""; 0]);
        let open = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
        let typed =
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"y":{"type":"string"}}}"#;
        assert_eq!(changes(open, typed), ["spec.x.y could have any value, and has a type now"]);
    }
}
