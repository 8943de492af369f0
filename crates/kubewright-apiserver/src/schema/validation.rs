//! Says what is wrong with an object, in the words of the real server.
//!
//! A value that an update leaves as it was is not checked again, so that a stricter schema does not get in the way of
//! those who change something else.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{CauseType, Map, Value};

use super::path::Path;
use super::{Schema, embedded, format, lists};

/// The path of what is wrong with no field in particular.
pub(super) const NO_FIELD: &str = "<nil>";
/// Floating-point numbers beyond this are no integers, because their neighbours are missing.
const WHOLE_MAX: f64 = ((1_u64 << 53) - 1) as f64;

impl Schema {
    /// What is wrong with the shape of an object that takes the place of `old`.
    pub(crate) fn complaints(&self, object: &Value, old: Option<&Value>) -> Vec<StatusCause> {
        let mut check = Check { prefix: "", is_default: false, causes: Vec::new() };
        check.value(self, &Path::Root, object, old);
        check.causes
    }

    /// What is wrong with the shape of the status of an object that takes the place of `old`.
    pub(crate) fn status_complaints(&self, object: &Value, old: &Value) -> Vec<StatusCause> {
        let mut check = Check { prefix: "status", is_default: false, causes: Vec::new() };
        if let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status")) {
            check.value(schema, &Path::Root, status, old.get("status"));
        }
        check.causes
    }

    /// What is wrong with a default, whose own path is `path`. Each look is only worth it if the one before found nothing.
    pub(super) fn complaints_about_default(&self, path: &str, default: &Value) -> Vec<StatusCause> {
        let mut check = Check { prefix: path, is_default: true, causes: Vec::new() };
        embedded::check(self, path, default, &mut check.causes);
        if check.causes.is_empty() {
            check.value(self, &Path::Root, default, None);
        }
        if check.causes.is_empty() {
            check.causes = self.breaches_of_default(path, default);
        }
        check.causes
    }

    /// Adds to all other complaints what is wrong with objects within the object, with lists whose items have to
    /// differ, and with rules. Rules that are broken by what is as it was before are `warnings`.
    pub(crate) fn further_complaints(
        &self,
        mut causes: Vec<StatusCause>,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Vec<StatusCause> {
        embedded::check(self, "", object, &mut causes);
        let mut duplicates = Vec::new();
        lists::check(self, &Path::Root, object, &mut duplicates);
        if !duplicates.is_empty() {
            let mut before = Vec::new();
            if let Some(old) = old {
                lists::check(self, &Path::Root, old, &mut before);
            }
            // Whoever had duplicates before may keep them.
            if before.is_empty() {
                causes.append(&mut duplicates);
            }
        }
        // Rules are about values that have the right shape.
        if !self.has_rules {
            return causes;
        }
        if !causes.iter().any(keeps_from_rules) {
            causes.extend(self.breaches(object, old, warnings));
        } else {
            let why = "some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
            causes.push(StatusCause::invalid(NO_FIELD, "null", why));
        }
        causes
    }
}

/// How many causes are kept with their messages: an object may be wrong in very many places.
const MAX_DETAILED: usize = 1000;

/// One walk through an object.
struct Check<'a> {
    /// Where the walk begins; fields are named from the top, messages from here.
    prefix: &'a str,
    /// Whether it is a default of the schema itself: a number or text may be anything there.
    is_default: bool,
    causes: Vec<StatusCause>,
}

impl<'a> Check<'a> {
    /// Adds a cause. Only the first ones are shown; of all others only their number and type count.
    fn push(&mut self, mut cause: StatusCause) {
        if self.causes.len() >= MAX_DETAILED {
            cause.field = None;
            cause.message = None;
        }
        self.causes.push(cause);
    }

    /// The field of complaints that are about no field in particular.
    fn nameless(&self) -> &'a str {
        if self.is_default { self.prefix } else { NO_FIELD }
    }

    fn value(&mut self, schema: &Schema, path: &Path<'_>, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        self.type_of(schema, path, value);
        if value.is_null() {
            return self.one_of_values(schema, path, value);
        }
        self.alternatives(schema, path, value);
        match value {
            Value::String(text) => self.text(schema, path, text),
            Value::Int(_) | Value::Float(_) => self.number(schema, path, value),
            Value::Array(list) => self.list(schema, path, list, old),
            _ => {}
        }
        self.one_of_values(schema, path, value);
        if let Value::Object(fields) = value {
            self.fields(schema, path, fields, old);
        }
    }

    fn type_of(&mut self, schema: &Schema, path: &Path<'_>, value: &Value) {
        if value.is_null() && schema.nullable {
            return;
        }
        let found = type_name(value);
        let is_whole = matches!(value, Value::Float(number) if number.fract() == 0.0 && number.abs() <= WHOLE_MAX);
        let fits = |ty: &str| ty == found || (ty == "number" && found == "integer") || (ty == "integer" && is_whole);
        let wanted = match (schema.int_or_string, &*schema.ty) {
            (true, _) if self.is_default || fits("integer") || fits("string") => return,
            (true, _) => "integer,string",
            (false, "") => return,
            (false, ty) if fits(ty) => return,
            // The real server names the format where it knows one, and shows that of the value.
            (false, _) if !schema.format.is_empty() && !matches!(value, Value::String(_) | Value::Array(_)) => {
                let found = match value {
                    Value::Int(_) => "int64",
                    Value::Float(_) => "float64",
                    _ => "",
                };
                return self.wrong_type(path, &schema.format, found);
            }
            (false, ty) => ty,
        };
        self.wrong_type(path, wanted, found);
    }

    fn wrong_type(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let why = format!("{path} in body must be of type {wanted}: {found:?}");
        self.push(StatusCause::type_invalid(self.field(path), format!("{found:?}"), &why));
    }

    fn alternatives(&mut self, schema: &Schema, path: &Path<'_>, value: &Value) {
        if !schema.has_alternatives() {
            return;
        }
        let attempt = |schema: &Schema| {
            let mut check = Check { prefix: self.prefix, is_default: self.is_default, causes: Vec::new() };
            check.value(schema, path, value, None);
            check.causes
        };
        let (quoted, nameless) = (format!("{:?}", path.to_string()), self.nameless());
        let mut causes = Vec::new();
        let mut complain = |why: &str| causes.push(StatusCause::invalid(nameless, "\"\"", &format!("{quoted} {why}")));
        if !schema.any_of.is_empty() {
            let failures: Vec<_> = schema.any_of.iter().map(attempt).collect();
            if failures.iter().all(|failure| !failure.is_empty()) {
                complain("must validate at least one schema (anyOf)");
                causes.extend(failures.into_iter().next().unwrap_or_default());
            }
        }
        let mut complain = |why: &str| causes.push(StatusCause::invalid(nameless, "\"\"", &format!("{quoted} {why}")));
        if !schema.one_of.is_empty() {
            let failures: Vec<_> = schema.one_of.iter().map(attempt).collect();
            match failures.iter().filter(|failure| failure.is_empty()).count() {
                1 => {}
                0 => {
                    complain("must validate one and only one schema (oneOf). Found none valid");
                    causes.extend(failures.into_iter().next().unwrap_or_default());
                }
                many => {
                    complain(&format!("must validate one and only one schema (oneOf). Found {many} valid alternatives"))
                }
            }
        }
        if !schema.all_of.is_empty() {
            let failures: Vec<_> = schema.all_of.iter().map(attempt).filter(|failure| !failure.is_empty()).collect();
            if !failures.is_empty() {
                let none = if failures.len() == schema.all_of.len() { ". None validated" } else { "" };
                causes.extend(failures.into_iter().flatten());
                let why = format!("{quoted} must validate all the schemas (allOf){none}");
                causes.push(StatusCause::invalid(nameless, "\"\"", &why));
            }
        }
        if schema.not.as_deref().is_some_and(|schema| attempt(schema).is_empty()) {
            let why = format!("{quoted} must not validate the schema (not)");
            causes.push(StatusCause::invalid(nameless, "\"\"", &why));
        }
        self.causes.append(&mut causes);
    }

    fn text(&mut self, schema: &Schema, path: &Path<'_>, text: &str) {
        let quoted = || format!("{text:?}");
        let length = text.chars().count();
        // The first of these is told alone.
        if let Some(max) = schema.bounds.max_length.filter(|max| length > *max) {
            self.push(StatusCause::too_long(self.field(path), max));
        } else if let Some(min) = schema.bounds.min_length.filter(|min| length < *min) {
            self.invalid(path, quoted(), &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(path, quoted(), &format!("should match '{}'", pattern.as_str()));
        }
        if matches!(&*schema.ty, "" | "string") && !format::fits(&schema.format, text) {
            let why = format!("{path} in body must be of type {}: {text:?}", schema.format);
            self.push(StatusCause::type_invalid(self.field(path), quoted(), &why));
        }
    }

    fn number(&mut self, schema: &Schema, path: &Path<'_>, value: &Value) {
        let (bounds, number) = (&schema.bounds, value.as_f64().unwrap_or_default());
        // The largest integer has no floating-point number of its own: one that looks like it is larger.
        let is_beyond = matches!(value, Value::Float(_)) && schema.ty == "integer" && number >= i64::MAX as f64;
        if is_beyond || !format::fits_number(&schema.ty, &schema.format, number) {
            let format = match &*schema.format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let why = format!("Checked value must be of type {} {format} in {path}", schema.ty);
            self.push(StatusCause::invalid(self.nameless(), "\"\"", &why));
        }
        if let Some(factor) = bounds.multiple_of
            && factor > 0.0
            && ((number / factor) - (number / factor).round()).abs() > 1e-9
        {
            self.invalid(path, shown(value), &format!("should be a multiple of {factor}"));
        }
        if let Some(max) = bounds.maximum {
            match bounds.exclusive_maximum {
                true if number >= max => self.invalid(path, shown(value), &format!("should be less than {max}")),
                false if number > max => {
                    self.invalid(path, shown(value), &format!("should be less than or equal to {max}"))
                }
                _ => {}
            }
        }
        if let Some(min) = bounds.minimum {
            match bounds.exclusive_minimum {
                true if number <= min => self.invalid(path, shown(value), &format!("should be greater than {min}")),
                false if number < min => {
                    self.invalid(path, shown(value), &format!("should be greater than or equal to {min}"));
                }
                _ => {}
            }
        }
    }

    fn list(&mut self, schema: &Schema, path: &Path<'_>, list: &[Value], old: Option<&Value>) {
        if let Some(items) = schema.items.as_deref() {
            // Only items with keys can be recognized in the list that was there before.
            let before = lists::Index::new(schema, old);
            for (index, item) in list.iter().enumerate() {
                self.value(items, &path.item(index), item, before.get(schema, item));
            }
        }
        if let Some(min) = schema.bounds.min_items.filter(|min| list.len() < *min) {
            self.invalid(path, list.len(), &format!("should have at least {min} items"));
        }
        if let Some(max) = schema.bounds.max_items.filter(|max| list.len() > *max) {
            self.push(StatusCause::too_many(self.field(path), list.len(), max));
        }
        if schema.unique_items && !lists::duplicates(list.iter().cloned()).is_empty() {
            self.invalid(path, "\"\"", "shouldn't contain duplicates");
        }
    }

    fn one_of_values(&mut self, schema: &Schema, path: &Path<'_>, value: &Value) {
        let Some(values) = &schema.values else { return };
        if values.contains(value) {
            return;
        }
        if self.causes.len() >= MAX_DETAILED {
            return self.push(StatusCause::not_supported("", "", &[]));
        }
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let supported: Vec<String> = values.iter().map(plain).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        self.push(StatusCause::not_supported(self.field(path), shown(value), &supported));
    }

    fn fields(&mut self, schema: &Schema, path: &Path<'_>, fields: &Map<Value>, old: Option<&Value>) {
        if let Some(min) = schema.bounds.min_properties.filter(|min| fields.len() < *min) {
            self.invalid(path, fields.len(), &format!("should have at least {min} properties"));
        }
        if let Some(max) = schema.bounds.max_properties.filter(|max| fields.len() > *max) {
            self.push(StatusCause::too_many(self.field(path), fields.len(), max));
        }
        for name in &schema.required {
            if !fields.contains_key(name) {
                self.push(StatusCause::required(self.field(&path.field(name)), ""));
            }
        }
        for (name, value) in fields.iter() {
            let before = old.and_then(|old| old.get(name));
            if let Some(field) = schema.of_field(name) {
                self.value(field, &path.field(name), value, before);
            }
        }
    }

    fn invalid(&mut self, path: &Path<'_>, value: impl std::fmt::Display, why: &str) {
        self.push(StatusCause::invalid(self.field(path), value, &format!("{path} in body {why}")));
    }

    /// The name of a place from the top.
    fn field(&self, path: &Path<'_>) -> String {
        path.below(self.prefix)
    }
}

/// Whether a value is so wrong that rules cannot be asked about it.
fn keeps_from_rules(cause: &StatusCause) -> bool {
    use CauseType::*;
    let kinds =
        [FieldValueNotSupported, FieldValueRequired, FieldValueTooLong, FieldValueTooMany, FieldValueTypeInvalid];
    cause.cause_type().is_some_and(|kind| kinds.contains(&kind))
}

/// The type of a value, as schemas name it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "integer",
        other => other.kind(),
    }
}

/// A value as messages show it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.as_str()),
        // Whole numbers have no decimals in Go.
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(schema: &str, object: &str, old: Option<&str>) -> Vec<String> {
        let tree = |json: &str| json.parse::<Value>().expect("valid JSON");
        let (schema, object, old) = (Schema::read(&tree(schema)), tree(object), old.map(tree));
        let causes = schema.complaints(&object, old.as_ref());
        let causes = schema.further_complaints(causes, &object, old.as_ref(), &mut Vec::new());
        let text =
            |cause: StatusCause| format!("{}: {}", cause.field.unwrap_or_default(), cause.message.unwrap_or_default());
        causes.into_iter().map(text).collect()
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","required":["size"],"properties":{
        "size":{"type":"integer","minimum":1,"maximum":10},
        "half":{"type":"number","exclusiveMinimum":true,"minimum":0,"multipleOf":0.5},
        "port":{"x-kubernetes-int-or-string":true},
        "color":{"type":"string","enum":["red","blue"]},
        "name":{"type":"string","pattern":"^[a-z]+$","maxLength":5,"minLength":2},
        "when":{"type":"string","format":"date-time"},
        "list":{"type":"array","maxItems":2,"items":{"type":"object","properties":{"v":{"type":"integer"}}}},
        "either":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
            "oneOf":[{"required":["a"]},{"required":["b"]}]},
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
            "items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":5}}}}}}}}"#;

    #[test]
    fn each_rule_has_its_words() {
        for (spec, want) in [
            (r#"{"size":1,"half":1.5,"port":80,"color":"red","name":"abc","when":"2024-01-01T00:00:00Z"}"#, ""),
            (r#"{}"#, "spec.size: Required value"),
            (r#"{"size":0}"#, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
            (r#"{"size":11}"#, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
            (
                r#"{"size":"x"}"#,
                r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
            ),
            (r#"{"size":1.0}"#, ""),
            (
                r#"{"size":1.5}"#,
                "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"; \
                 <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.size",
            ),
            (r#"{"size":1,"half":0}"#, "spec.half: Invalid value: 0: spec.half in body should be greater than 0"),
            (
                r#"{"size":1,"half":0.7}"#,
                "spec.half: Invalid value: 0.7: spec.half in body should be a multiple of 0.5",
            ),
            (
                r#"{"size":1,"port":true}"#,
                r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
            ),
            (
                r#"{"size":1,"color":"green"}"#,
                r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#,
            ),
            (
                r#"{"size":1,"name":"AB"}"#,
                r#"spec.name: Invalid value: "AB": spec.name in body should match '^[a-z]+$'"#,
            ),
            (r#"{"size":1,"name":"abcdef"}"#, "spec.name: Too long: may not be more than 5 bytes"),
            (
                r#"{"size":1,"when":"noon"}"#,
                r#"spec.when: Invalid value: "noon": spec.when in body must be of type date-time: "noon""#,
            ),
            (r#"{"size":1,"list":[{},{},{}]}"#, "spec.list: Too many: 3: must have at most 2 items"),
            (
                r#"{"size":1,"list":[{"v":"x"}]}"#,
                r#"spec.list[0].v: Invalid value: "string": spec.list[0].v in body must be of type integer: "string""#,
            ),
            (
                r#"{"size":1,"either":{"a":1,"b":1}}"#,
                r#"<nil>: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ),
            (r#"{"size":1,"map":[{"k":"a"},{"k":"a"}]}"#, r#"spec.map[1]: Duplicate value: {"k":"a"}"#),
            (
                r#"{"size":1,"map":[1,1]}"#,
                "spec.map[0]: Invalid value: \"integer\": spec.map[0] in body must be of type object: \"integer\"; \
                 spec.map[1]: Invalid value: \"integer\": spec.map[1] in body must be of type object: \"integer\"; \
                 spec.map[0]: Invalid value: 1: must be an object for an array of list-type map; \
                 spec.map[1]: Invalid value: 1: must be an object for an array of list-type map",
            ),
        ] {
            let found = complaints(SCHEMA, &format!(r#"{{"spec":{spec}}}"#), None);
            assert_eq!(found.join("; "), want, "{spec}");
        }
    }

    #[test]
    fn what_an_update_leaves_as_it_was_is_not_checked_again() {
        let old = r#"{"spec":{"size":99,"map":[{"k":"a","v":9}]}}"#;
        assert!(
            complaints(SCHEMA, r#"{"spec":{"size":99,"color":"red","map":[{"k":"b"},{"k":"a","v":9}]}}"#, Some(old))
                .is_empty()
        );
        assert_eq!(complaints(SCHEMA, r#"{"spec":{"size":98,"map":[{"k":"a","v":8}]}}"#, Some(old)).len(), 2);
    }
}
