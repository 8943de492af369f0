//! Merge semantics of a path: atomic, or divided into parts with separate owners.

use super::field_set::Element;
use kubewright_core::meta::v1::OBJECT_META;
use kubewright_core::scheme::{FieldInfo, Flags, ListType, Type, TypeInfo};
use kubewright_core::{Map, Value};

/// Fields that are granular although their types are atomic elsewhere.
const GRANULAR: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef"),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
];

/// The merge semantics of a path in an object.
#[derive(Debug, Clone, Copy)]
pub struct MergeSchema<'s>(Shape<'s>);

#[derive(Debug, Clone, Copy)]
enum Shape<'s> {
    /// A value without parts.
    Scalar(&'static Type),
    /// An object with known fields.
    Struct { info: &'static TypeInfo, is_atomic: bool },
    /// A map of whatever keys.
    Map { item: &'static Type, is_atomic: bool },
    /// A list.
    List { item: &'static Type, list: ListType },
    /// An object whose schema is unknown except for its metadata.
    Custom { metadata: &'static TypeInfo },
    /// A node of a JSON schema; with `metadata`, the root of an object.
    Described { schema: &'s Value, metadata: Option<&'static TypeInfo> },
    /// Unknown: maps are granular, lists atomic.
    Deduced,
}

/// How a value divides into parts.
pub(super) enum ValueParts<'a> {
    /// It is atomic.
    Leaf,
    /// By key.
    Map(Option<&'a Map<Value>>, Option<&'a Map<Value>>),
    /// By item.
    List(&'a [Value], &'a [Value]),
}

impl<'s> MergeSchema<'s> {
    /// The schema of objects of a known type.
    pub const fn of(info: &'static TypeInfo) -> Self {
        MergeSchema(Shape::Struct { info, is_atomic: info.atomic })
    }

    /// The schema of objects without a schema except for their metadata.
    pub const fn custom(metadata: &'static TypeInfo) -> Self {
        MergeSchema(Shape::Custom { metadata })
    }

    /// The schema of objects with a structural JSON schema.
    pub const fn described(schema: &'s Value, metadata: &'static TypeInfo) -> Self {
        MergeSchema(Shape::Described { schema, metadata: Some(metadata) })
    }

    /// The schema of one JSON schema node.
    fn of_description(schema: &'s Value) -> Self {
        let is = |field: &str| schema.get(field).and_then(Value::as_bool) == Some(true);
        MergeSchema(match text(schema, "type") {
            _ if is("x-kubernetes-int-or-string") => Shape::Scalar(&Type::IntOrString),
            "string" => Shape::Scalar(&Type::String),
            "integer" => Shape::Scalar(&Type::Int64),
            "number" => Shape::Scalar(&Type::Double),
            "boolean" => Shape::Scalar(&Type::Bool),
            "object" if is("x-kubernetes-embedded-resource") => {
                Shape::Described { schema, metadata: Some(&OBJECT_META) }
            }
            "object" | "array" => Shape::Described { schema, metadata: None },
            _ => Shape::Deduced,
        })
    }

    fn of_type(ty: &'static Type) -> Self {
        MergeSchema(match ty {
            Type::Message(info) => Shape::Struct { info, is_atomic: info.atomic },
            Type::Map(item) => Shape::Map { item, is_atomic: false },
            Type::List(item) => Shape::List { item, list: ListType::Unset },
            Type::Raw | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => Shape::Deduced,
            scalar => Shape::Scalar(scalar),
        })
    }

    fn of_field(parent: &'static TypeInfo, field: &'static FieldInfo) -> Self {
        let is_granular = GRANULAR.contains(&(parent.name, field.name));
        MergeSchema(match (MergeSchema::of_type(&field.ty).0, field.rules) {
            (Shape::Struct { info, is_atomic }, rules) => {
                Shape::Struct { info, is_atomic: (is_atomic || rules.atomic_map) && !is_granular }
            }
            (Shape::Map { item, .. }, rules) => Shape::Map { item, is_atomic: rules.atomic_map && !is_granular },
            (Shape::List { item, .. }, rules) => Shape::List { item, list: rules.list },
            (shape, _) => shape,
        })
    }

    /// The schema of a field or map key; `None` if there is no such field.
    pub(super) fn field(self, name: &str) -> Option<MergeSchema<'s>> {
        match self.0 {
            Shape::Struct { info, .. } if is_type_meta(info, name) => Some(MergeSchema::of_type(&Type::String)),
            Shape::Struct { info, .. } => info.field(name).map(|field| MergeSchema::of_field(info, field)),
            Shape::Map { item, .. } => Some(MergeSchema::of_type(item)),
            Shape::Custom { metadata } if name == "metadata" => Some(MergeSchema::of(metadata)),
            Shape::Custom { .. } | Shape::Deduced => Some(MergeSchema(Shape::Deduced)),
            Shape::Described { metadata: Some(metadata), .. } if name == "metadata" => Some(MergeSchema::of(metadata)),
            Shape::Described { metadata: Some(_), .. } if matches!(name, "apiVersion" | "kind") => {
                Some(MergeSchema::of_type(&Type::String))
            }
            Shape::Described { schema, .. } => described_field(schema, name),
            Shape::Scalar(_) | Shape::List { .. } => None,
        }
    }

    /// The schema of a field, or an unknown schema if there is no such field.
    pub(super) fn field_or_any(self, name: &str) -> MergeSchema<'s> {
        self.field(name).unwrap_or(MergeSchema(Shape::Deduced))
    }

    /// The schema of list items.
    pub(super) fn item(self) -> MergeSchema<'s> {
        match self.0 {
            Shape::List { item, .. } => MergeSchema::of_type(item),
            Shape::Described { schema, .. } => {
                schema.get("items").map_or(MergeSchema(Shape::Deduced), MergeSchema::of_description)
            }
            _ => MergeSchema(Shape::Deduced),
        }
    }

    /// The schema of a path element.
    pub(super) fn step(self, element: &Element) -> MergeSchema<'s> {
        element.field_name().map_or_else(|| self.item(), |name| self.field_or_any(name))
    }

    /// Whether the type, and not the object, defines a field of this name.
    pub(super) fn is_named(self, name: &str) -> bool {
        match self.0 {
            Shape::Struct { info, .. } => info.field(name).is_some() || is_type_meta(info, name),
            Shape::Custom { .. } => matches!(name, "apiVersion" | "kind" | "metadata"),
            Shape::Described { schema, metadata } => {
                metadata.is_some() && matches!(name, "apiVersion" | "kind" | "metadata")
                    || schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
            }
            _ => false,
        }
    }

    /// The type of a scalar.
    pub(super) fn scalar(self) -> Option<&'static Type> {
        match self.0 {
            Shape::Scalar(ty) => Some(ty),
            _ => None,
        }
    }

    pub(super) fn is_list(self) -> bool {
        match self.0 {
            Shape::List { .. } => true,
            Shape::Described { schema, .. } => text(schema, "type") == "array",
            _ => false,
        }
    }

    pub(super) fn is_map(self) -> bool {
        match self.0 {
            Shape::Struct { .. } | Shape::Map { .. } | Shape::Custom { .. } => true,
            Shape::Described { schema, .. } => text(schema, "type") == "object",
            _ => false,
        }
    }

    /// Whether the value is atomic.
    pub(super) fn is_leaf(self, value: &Value) -> bool {
        match (self.0, value) {
            (Shape::Struct { is_atomic, .. } | Shape::Map { is_atomic, .. }, Value::Object(_)) => is_atomic,
            (Shape::List { list, .. }, Value::Array(_)) => matches!(list, ListType::Unset | ListType::Atomic),
            (Shape::Custom { .. } | Shape::Deduced, Value::Object(_)) => false,
            (Shape::Described { schema, .. }, Value::Object(_)) => text(schema, "x-kubernetes-map-type") == "atomic",
            (Shape::Described { schema, .. }, Value::Array(_)) => {
                !matches!(text(schema, "x-kubernetes-list-type"), "set" | "map")
            }
            _ => true,
        }
    }

    /// How two values of this path divide. An absent or `null` value follows the other one.
    ///
    /// If both are empty, they count as atomic, so that empty and `null` stay distinct.
    pub(super) fn parts<'a>(self, a: Option<&'a Value>, b: Option<&'a Value>) -> ValueParts<'a> {
        let is_leaf = |value: Option<&Value>| value.is_some_and(|value| !value.is_null() && self.is_leaf(value));
        if is_leaf(a) || is_leaf(b) {
            return ValueParts::Leaf;
        }
        let map = |value: Option<&'a Value>| value.and_then(Value::as_object);
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
        match (map(a), map(b)) {
            (None, None) => match (list(a), list(b)) {
                ([], []) => ValueParts::Leaf,
                (a, b) => ValueParts::List(a, b),
            },
            (a, b) if a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) => ValueParts::Leaf,
            (a, b) => ValueParts::Map(a, b),
        }
    }

    /// Why an item of an associative list has no identity.
    pub(super) fn unrecognizable(self, item: &Value) -> Option<&'static str> {
        let has_keys = match self.0 {
            Shape::List { list: ListType::Map(_), .. } => true,
            Shape::Described { schema, .. } => text(schema, "x-kubernetes-list-type") == "map",
            _ => false,
        };
        match item {
            Value::Null if has_keys => Some("associative list with keys may not have a null element"),
            Value::Object(_) if has_keys => None,
            _ if has_keys => Some("associative list with keys may not have non-map elements"),
            Value::Object(_) => Some("associative list without keys has an element that's a map type"),
            Value::Array(_) => Some("not supported: associative list with lists as elements"),
            Value::Null => Some("associative list without keys has an element that's an explicit null"),
            _ => None,
        }
    }

    /// The path element of a list item; an error if all keys are missing and none has a default.
    ///
    /// An item that lacks some of the keys differs from every item that has them.
    pub(super) fn element(self, item: &Value) -> Result<Element, String> {
        let (mut values, mut missing) = (Map::new(), Vec::new());
        let mut add = |key: &str, default: &dyn Fn() -> Option<Value>| match item.get(key).cloned().or_else(default) {
            Some(value) => drop(values.insert(key, value)),
            None => missing.push(format!("{key:?}")),
        };
        match self.0 {
            Shape::List { item: ty, list: ListType::Map(keys) } => {
                let default = |key: &str| ty.message().and_then(|info| info.field(key)).and_then(default_of);
                keys.iter().for_each(|key| add(key, &|| default(key)));
            }
            Shape::Described { schema, .. } if text(schema, "x-kubernetes-list-type") == "map" => {
                let properties = schema.get("items").and_then(|items| items.get("properties"));
                let default = |key: &str| properties?.get(key)?.get("default").cloned();
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flat_map(|keys| keys.iter()).filter_map(Value::as_str);
                keys.into_iter().for_each(|key| add(key, &|| default(key)));
            }
            _ => return Ok(Element::value(item)),
        }
        if values.is_empty() && !missing.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] \
                 (and doesn't have default values for any key fields)",
                missing.join(" ")
            ));
        }
        Ok(Element::key(values))
    }
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The schema of a key in a JSON schema: its property, `additionalProperties`, or unknown for
/// preserved fields.
fn described_field<'s>(schema: &'s Value, name: &str) -> Option<MergeSchema<'s>> {
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) {
        return Some(MergeSchema::of_description(property));
    }
    match schema.get("additionalProperties") {
        Some(additional @ Value::Object(_)) => Some(MergeSchema::of_description(additional)),
        Some(Value::Bool(true)) => Some(MergeSchema(Shape::Deduced)),
        _ => {
            let keeps = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool);
            let is_embedded = schema.get("x-kubernetes-embedded-resource").and_then(Value::as_bool) == Some(true)
                && matches!(name, "apiVersion" | "kind" | "metadata");
            (keeps == Some(true) || is_embedded).then_some(MergeSchema(Shape::Deduced))
        }
    }
}

/// Whether this is `apiVersion` or `kind`, which the type tables do not contain.
fn is_type_meta(info: &TypeInfo, name: &str) -> bool {
    info.kind.is_some() && matches!(name, "apiVersion" | "kind")
}

/// The published default of a key.
fn default_of(field: &FieldInfo) -> Option<Value> {
    if let Some(json) = field.rules.default {
        return json.parse().ok();
    }
    let flags = field.flags;
    let is_written = flags.has(Flags::REQUIRED | Flags::ALWAYS) && !flags.has(Flags::OMIT_ZERO);
    if !is_written || flags.has(Flags::POINTER) || flags.has(Flags::NO_DEFAULT) {
        return None;
    }
    match field.ty {
        Type::String => Some("".into()),
        Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
        Type::Bool => Some(false.into()),
        _ => None,
    }
}
