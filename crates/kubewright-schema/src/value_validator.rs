//! Validation of the structure of a value: types, formats, bounds, enums and junctors.
//!
//! A value that an update leaves unchanged is not validated again.

use kubewright_cel::string_format;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Map, Value};

use crate::cause::{NO_FIELD, display};
use crate::field_path::FieldPath;
use crate::list_type::{self, KeyedItems};
use crate::schema::Schema;

/// Larger floats are not integers: not every integer of that size has a float.
const MAX_INTEGRAL: f64 = ((1_u64 << 53) - 1) as f64;

/// The number of causes with a message. Further causes have only their type.
const MAX_DETAILED: usize = 1000;

/// The number of allowed values that all causes list together.
const MAX_LISTED_VALUES: usize = 100_000;

/// One walk through a value.
pub(crate) struct ValueValidator<'a> {
    /// The path of the root. Causes have full paths, their messages paths from the root.
    prefix: &'a str,
    /// Whether the value is a default in a schema. int-or-string defaults are not type-checked.
    is_default: bool,
    causes: Vec<StatusCause>,
}

impl<'a> ValueValidator<'a> {
    /// Validates a value that replaces `old`. `prefix` is its path.
    pub(crate) fn validate(prefix: &'a str, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
        let mut validator = ValueValidator { prefix, is_default: false, causes: Vec::new() };
        validator.value(schema, &FieldPath::Root, value, old);
        validator.causes
    }

    /// Validates a default of a schema. `prefix` is its path.
    pub(crate) fn validate_default(prefix: &'a str, schema: &Schema, default: &Value) -> Vec<StatusCause> {
        let mut validator = ValueValidator { prefix, is_default: true, causes: Vec::new() };
        validator.value(schema, &FieldPath::Root, default, None);
        validator.causes
    }

    /// Adds a cause. Beyond [`MAX_DETAILED`] causes, field and message are dropped.
    fn push(&mut self, mut cause: StatusCause) {
        if self.causes.len() >= MAX_DETAILED {
            cause.field = None;
            cause.message = None;
        }
        self.causes.push(cause);
    }

    /// The field of causes that concern no particular field.
    fn general_field(&self) -> &'a str {
        if self.is_default { self.prefix } else { NO_FIELD }
    }

    fn value(&mut self, schema: &Schema, path: &FieldPath<'_>, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        self.type_of(schema, path, value);
        if value.is_null() {
            return self.enum_values(schema, path, value);
        }
        self.junctors(schema, path, value);
        match value {
            Value::String(text) => self.text(schema, path, text),
            Value::Int(_) | Value::Float(_) => self.number(schema, path, value),
            Value::Array(list) => self.list(schema, path, list, old),
            _ => {}
        }
        self.enum_values(schema, path, value);
        if let Value::Object(fields) = value {
            self.fields(schema, path, fields, old);
        }
    }

    fn type_of(&mut self, schema: &Schema, path: &FieldPath<'_>, value: &Value) {
        if value.is_null() && schema.nullable {
            return;
        }
        let found = type_name(value);
        let is_integral =
            matches!(value, Value::Float(number) if number.fract() == 0.0 && number.abs() <= MAX_INTEGRAL);
        let fits = |ty: &str| ty == found || (ty == "number" && found == "integer") || (ty == "integer" && is_integral);
        let wanted = match (schema.int_or_string, &*schema.ty) {
            (true, _) if self.is_default || fits("integer") || fits("string") => return,
            (true, _) => "integer,string",
            (false, "") => return,
            (false, ty) if fits(ty) => return,
            // kube-apiserver shows formats instead of types where it knows them.
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

    fn wrong_type(&mut self, path: &FieldPath<'_>, wanted: &str, found: &str) {
        let why = format!("{path} in body must be of type {wanted}: {found:?}");
        self.push(StatusCause::type_invalid(self.field(path), format!("{found:?}"), &why));
    }

    fn junctors(&mut self, schema: &Schema, path: &FieldPath<'_>, value: &Value) {
        if !schema.has_junctors() {
            return;
        }
        let attempt = |schema: &Schema| {
            let mut attempt = ValueValidator { prefix: self.prefix, is_default: self.is_default, causes: Vec::new() };
            attempt.value(schema, path, value, None);
            attempt.causes
        };
        let (quoted, general) = (format!("{:?}", path.to_string()), self.general_field());
        let mut causes = Vec::new();
        let mut report = |why: &str| causes.push(StatusCause::invalid(general, "\"\"", &format!("{quoted} {why}")));
        if !schema.any_of.is_empty() {
            let failures: Vec<_> = schema.any_of.iter().map(attempt).collect();
            if failures.iter().all(|failure| !failure.is_empty()) {
                report("must validate at least one schema (anyOf)");
                causes.extend(failures.into_iter().next().unwrap_or_default());
            }
        }
        let mut report = |why: &str| causes.push(StatusCause::invalid(general, "\"\"", &format!("{quoted} {why}")));
        if !schema.one_of.is_empty() {
            let failures: Vec<_> = schema.one_of.iter().map(attempt).collect();
            match failures.iter().filter(|failure| failure.is_empty()).count() {
                1 => {}
                0 => {
                    report("must validate one and only one schema (oneOf). Found none valid");
                    causes.extend(failures.into_iter().next().unwrap_or_default());
                }
                many => {
                    report(&format!("must validate one and only one schema (oneOf). Found {many} valid alternatives"))
                }
            }
        }
        if !schema.all_of.is_empty() {
            let failures: Vec<_> = schema.all_of.iter().map(attempt).filter(|failure| !failure.is_empty()).collect();
            if !failures.is_empty() {
                let none = if failures.len() == schema.all_of.len() { ". None validated" } else { "" };
                causes.extend(failures.into_iter().flatten());
                let why = format!("{quoted} must validate all the schemas (allOf){none}");
                causes.push(StatusCause::invalid(general, "\"\"", &why));
            }
        }
        if schema.not.as_deref().is_some_and(|schema| attempt(schema).is_empty()) {
            let why = format!("{quoted} must not validate the schema (not)");
            causes.push(StatusCause::invalid(general, "\"\"", &why));
        }
        self.causes.append(&mut causes);
    }

    fn text(&mut self, schema: &Schema, path: &FieldPath<'_>, text: &str) {
        let quoted = || format!("{text:?}");
        let length = text.chars().count();
        // Only the first of these errors is reported.
        if let Some(max) = schema.bounds.max_length.filter(|max| length > *max) {
            self.push(StatusCause::too_long(self.field(path), max));
        } else if let Some(min) = schema.bounds.min_length.filter(|min| length < *min) {
            self.invalid(path, quoted(), &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(path, quoted(), &format!("should match '{}'", pattern.as_str()));
        }
        if matches!(&*schema.ty, "" | "string") && !string_format::is_valid(&schema.format, text) {
            let why = format!("{path} in body must be of type {}: {text:?}", schema.format);
            self.push(StatusCause::type_invalid(self.field(path), quoted(), &why));
        }
    }

    fn number(&mut self, schema: &Schema, path: &FieldPath<'_>, value: &Value) {
        let (bounds, number) = (&schema.bounds, value.as_f64().unwrap_or_default());
        // `i64::MAX` has no float: the nearest one is too large.
        let is_too_large = matches!(value, Value::Float(_)) && schema.ty == "integer" && number >= i64::MAX as f64;
        if is_too_large || !is_in_format(&schema.ty, &schema.format, number) {
            let format = match &*schema.format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let why = format!("Checked value must be of type {} {format} in {path}", schema.ty);
            self.push(StatusCause::invalid(self.general_field(), "\"\"", &why));
        }
        if let Some(factor) = bounds.multiple_of
            && factor > 0.0
            && ((number / factor) - (number / factor).round()).abs() > 1e-9
        {
            self.invalid(path, display(value), &format!("should be a multiple of {factor}"));
        }
        if let Some(max) = bounds.maximum {
            match bounds.exclusive_maximum {
                true if number >= max => self.invalid(path, display(value), &format!("should be less than {max}")),
                false if number > max => {
                    self.invalid(path, display(value), &format!("should be less than or equal to {max}"))
                }
                _ => {}
            }
        }
        if let Some(min) = bounds.minimum {
            match bounds.exclusive_minimum {
                true if number <= min => self.invalid(path, display(value), &format!("should be greater than {min}")),
                false if number < min => {
                    self.invalid(path, display(value), &format!("should be greater than or equal to {min}"));
                }
                _ => {}
            }
        }
    }

    fn list(&mut self, schema: &Schema, path: &FieldPath<'_>, list: &[Value], old: Option<&Value>) {
        if let Some(items) = schema.items.as_deref() {
            // Only items with keys can be correlated with old ones.
            let before = KeyedItems::new(schema, old);
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
        if schema.unique_items && !list_type::duplicates(list.iter().cloned()).is_empty() {
            self.invalid(path, "\"\"", "shouldn't contain duplicates");
        }
    }

    fn enum_values(&mut self, schema: &Schema, path: &FieldPath<'_>, value: &Value) {
        let Some(values) = &schema.enum_values else { return };
        if values.contains(value) {
            return;
        }
        if self.causes.len() >= MAX_DETAILED {
            return self.push(StatusCause::not_supported("", "", &[]));
        }
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // Each cause lists all values. Bound the product of both counts.
        let is_short = self.causes.len().saturating_mul(values.len()) < MAX_LISTED_VALUES;
        let supported: Vec<String> = values.iter().filter(|_| is_short).map(plain).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        self.push(StatusCause::not_supported(self.field(path), display(value), &supported));
    }

    fn fields(&mut self, schema: &Schema, path: &FieldPath<'_>, fields: &Map<Value>, old: Option<&Value>) {
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
            if let Some(field) = schema.field(name) {
                self.value(field, &path.field(name), value, before);
            }
        }
    }

    fn invalid(&mut self, path: &FieldPath<'_>, value: impl std::fmt::Display, why: &str) {
        self.push(StatusCause::invalid(self.field(path), value, &format!("{path} in body {why}")));
    }

    /// The full path of a field.
    fn field(&self, path: &FieldPath<'_>) -> String {
        path.with_prefix(self.prefix)
    }
}

/// The OpenAPI type of a value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "integer",
        other => other.kind(),
    }
}

/// Whether a number is in the range of its type and format.
fn is_in_format(ty: &str, format: &str, number: f64) -> bool {
    let is_integer_in = |least: f64, most: f64| number.fract() == 0.0 && (least..=most).contains(&number);
    match (ty, format) {
        ("integer", "int32") => is_integer_in(i32::MIN.into(), i32::MAX.into()),
        ("integer", "uint32") => is_integer_in(0.0, u32::MAX.into()),
        ("integer", "uint64") => is_integer_in(0.0, u64::MAX as f64),
        ("integer", _) => is_integer_in(i64::MIN as f64, i64::MAX as f64),
        ("number", "float" | "float32") => number.abs() <= f32::MAX.into(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(schema: &str, object: &str, old: Option<&str>) -> Vec<String> {
        let tree = |json: &str| json.parse::<Value>().expect("valid JSON");
        let (schema, object, old) = (Schema::parse(&tree(schema)), tree(object), old.map(tree));
        let causes = schema.validate(&object, old.as_ref()).causes;
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
    fn violations_have_the_messages_of_kube_apiserver() {
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
            let found = validate(SCHEMA, &format!(r#"{{"spec":{spec}}}"#), None);
            assert_eq!(found.join("; "), want, "{spec}");
        }
    }

    #[test]
    fn unchanged_values_are_not_validated_again() {
        let old = r#"{"spec":{"size":99,"map":[{"k":"a","v":9}]}}"#;
        assert!(
            validate(SCHEMA, r#"{"spec":{"size":99,"color":"red","map":[{"k":"b"},{"k":"a","v":9}]}}"#, Some(old))
                .is_empty()
        );
        assert_eq!(validate(SCHEMA, r#"{"spec":{"size":98,"map":[{"k":"a","v":8}]}}"#, Some(old)).len(), 2);
    }
}
