//! Parses schemas leniently: malformed parts are ignored here and reported by `structural`.

use kubewright_core::{Map, Str, Value, tree};

use crate::enum_values::EnumValues;
use crate::pattern::Pattern;
use crate::rule::ValidationRule;
use crate::schema::{AdditionalProperties, Bounds, ListType, Schema};

impl Schema {
    /// Parses the schema of whole objects. Malformed parts are ignored: see
    /// [`validate_schema`](crate::validate_schema).
    pub fn parse(value: &Value) -> Schema {
        Schema::parse_part(value, true)
    }

    fn parse_part(value: &Value, is_root: bool) -> Schema {
        let part = |value: &Value| Schema::parse_part(value, false);
        let text = |field: &str| Str::from(tree::text(value, &[field]));
        let flag = |field: &str| tree::is_true(value, &[field]);
        let texts =
            |field: &str| tree::items(value, &[field]).iter().filter_map(Value::as_str).map(Str::from).collect();
        let schemas = |field: &str| tree::items(value, &[field]).iter().map(part).collect::<Vec<_>>();
        let one = |field: &str| value.get(field).filter(|schema| schema.as_object().is_some()).map(part);
        let properties = value.get("properties").and_then(Value::as_object);
        let properties: Map<Schema> = properties
            .map(|properties| properties.iter().map(|(name, schema)| (name.clone(), part(schema))).collect())
            .unwrap_or_default();
        let mut schema = Schema {
            ty: text("type"),
            format: text("format"),
            nullable: flag("nullable"),
            default: value.get("default").cloned(),
            properties,
            additional: value.get("additionalProperties").and_then(additional),
            items: one("items").map(Box::new),
            required: texts("required"),
            bounds: bounds(value),
            enum_values: value.get("enum").and_then(Value::as_array).map(|values| EnumValues::new(values)),
            pattern: value.get("pattern").and_then(Value::as_str).map(Pattern::of_stored),
            unique_items: flag("uniqueItems"),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: one("not").map(Box::new),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_type: match tree::text(value, &["x-kubernetes-list-type"]) {
                "set" => ListType::Set,
                "map" => ListType::Map,
                _ => ListType::Atomic,
            },
            list_map_keys: texts("x-kubernetes-list-map-keys"),
            is_atomic: tree::text(value, &["x-kubernetes-map-type"]) == "atomic",
            rules: Vec::new(),
            has_defaults: false,
            has_rules: false,
        };
        schema.has_defaults = schema.default.is_some() || schema.parts().any(|part| part.has_defaults);
        let rules = tree::items(value, &["x-kubernetes-validations"]);
        if let Some(ty) = Some(rules).filter(|rules| !rules.is_empty()).and_then(|_| schema.cel_type(is_root)) {
            schema.rules = rules.iter().map(|rule| ValidationRule::parse(rule, &ty)).collect();
        }
        schema.has_rules = !schema.rules.is_empty() || schema.parts().any(|part| part.has_rules);
        schema
    }

    /// The schemas of fields and items.
    fn parts(&self) -> impl Iterator<Item = &Schema> {
        let additional = match &self.additional {
            Some(AdditionalProperties::Schema(schema)) => Some(&**schema),
            _ => None,
        };
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }
}

fn additional(value: &Value) -> Option<AdditionalProperties> {
    match value {
        Value::Bool(allowed) => Some(AdditionalProperties::Allowed(*allowed)),
        Value::Object(_) => Some(AdditionalProperties::Schema(Box::new(Schema::parse_part(value, false)))),
        _ => None,
    }
}

fn bounds(value: &Value) -> Bounds {
    let number = |field: &str| value.get(field).and_then(Value::as_f64);
    let size = |field: &str| tree::int(value, &[field]).and_then(|size| usize::try_from(size).ok());
    Bounds {
        minimum: number("minimum"),
        exclusive_minimum: tree::is_true(value, &["exclusiveMinimum"]),
        maximum: number("maximum"),
        exclusive_maximum: tree::is_true(value, &["exclusiveMaximum"]),
        multiple_of: number("multipleOf"),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        min_properties: size("minProperties"),
        max_properties: size("maxProperties"),
    }
}
