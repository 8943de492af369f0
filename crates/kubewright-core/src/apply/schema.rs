//! What a place in an object is, as far as applying cares: one value, or made of parts with owners of their own.

use super::field_set::Element;
use crate::scheme::{FieldInfo, Flags, ListType, Type, TypeInfo};
use crate::{Map, Value};

/// Fields that are applied part by part, although their types are one value elsewhere.
const GRANULAR: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef"),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
];

/// How a place in an object is applied.
#[derive(Debug, Clone, Copy)]
pub struct Schema(Shape);

#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A value without parts.
    Scalar(&'static Type),
    /// An object with known fields.
    Struct { info: &'static TypeInfo, is_atomic: bool },
    /// A map of whatever keys.
    Map { item: &'static Type, is_atomic: bool },
    /// A list.
    List { item: &'static Type, list: ListType },
    /// An object of which only the metadata is known.
    Custom { metadata: &'static TypeInfo },
    /// Whatever it is: maps by their keys, lists as one value.
    Deduced,
}

/// How a value divides into parts.
pub(super) enum Parts<'a> {
    /// It is one value.
    Leaf,
    /// By key.
    Map(Option<&'a Map<Value>>, Option<&'a Map<Value>>),
    /// By item.
    List(&'a [Value], &'a [Value]),
}

impl Schema {
    /// The schema of objects of a known type.
    pub const fn of(info: &'static TypeInfo) -> Self {
        Schema(Shape::Struct { info, is_atomic: info.atomic })
    }

    /// The schema of objects of which nothing is known but that they have metadata.
    pub const fn custom(metadata: &'static TypeInfo) -> Self {
        Schema(Shape::Custom { metadata })
    }

    fn of_type(ty: &'static Type) -> Self {
        Schema(match ty {
            Type::Message(info) => Shape::Struct { info, is_atomic: info.atomic },
            Type::Map(item) => Shape::Map { item, is_atomic: false },
            Type::List(item) => Shape::List { item, list: ListType::Unset },
            Type::Raw | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => Shape::Deduced,
            scalar => Shape::Scalar(scalar),
        })
    }

    fn of_field(parent: &'static TypeInfo, field: &'static FieldInfo) -> Self {
        let is_granular = GRANULAR.contains(&(parent.name, field.name));
        Schema(match (Schema::of_type(&field.ty).0, field.rules) {
            (Shape::Struct { info, is_atomic }, rules) => {
                Shape::Struct { info, is_atomic: (is_atomic || rules.atomic_map) && !is_granular }
            }
            (Shape::Map { item, .. }, rules) => Shape::Map { item, is_atomic: rules.atomic_map && !is_granular },
            (Shape::List { item, .. }, rules) => Shape::List { item, list: rules.list },
            (shape, _) => shape,
        })
    }

    /// What a field or key holds; `None` where there can be no such field.
    pub(super) fn field(self, name: &str) -> Option<Schema> {
        match self.0 {
            Shape::Struct { info, .. } if is_type_meta(info, name) => Some(Schema::of_type(&Type::String)),
            Shape::Struct { info, .. } => info.field(name).map(|field| Schema::of_field(info, field)),
            Shape::Map { item, .. } => Some(Schema::of_type(item)),
            Shape::Custom { metadata } if name == "metadata" => Some(Schema::of(metadata)),
            Shape::Custom { .. } | Shape::Deduced => Some(Schema(Shape::Deduced)),
            Shape::Scalar(_) | Shape::List { .. } => None,
        }
    }

    /// What a field holds, or anything where it is not known.
    pub(super) fn field_or_any(self, name: &str) -> Schema {
        self.field(name).unwrap_or(Schema(Shape::Deduced))
    }

    /// What the items of a list are.
    pub(super) fn item(self) -> Schema {
        match self.0 {
            Shape::List { item, .. } => Schema::of_type(item),
            _ => Schema(Shape::Deduced),
        }
    }

    /// What a step leads to.
    pub(super) fn step(self, element: &Element) -> Schema {
        element.field_name().map_or_else(|| self.item(), |name| self.field_or_any(name))
    }

    /// Whether the type, not the object, says that there is a field of this name.
    pub(super) fn is_named(self, name: &str) -> bool {
        match self.0 {
            Shape::Struct { info, .. } => info.field(name).is_some() || is_type_meta(info, name),
            Shape::Custom { .. } => matches!(name, "apiVersion" | "kind" | "metadata"),
            _ => false,
        }
    }

    /// The type of a place that is one value by nature.
    pub(super) fn scalar(self) -> Option<&'static Type> {
        match self.0 {
            Shape::Scalar(ty) => Some(ty),
            _ => None,
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self.0, Shape::List { .. })
    }

    pub(super) fn is_map(self) -> bool {
        matches!(self.0, Shape::Struct { .. } | Shape::Map { .. } | Shape::Custom { .. })
    }

    /// Whether the place is one value that has one owner.
    pub(super) fn is_leaf(self, value: &Value) -> bool {
        match (self.0, value) {
            (Shape::Struct { is_atomic, .. } | Shape::Map { is_atomic, .. }, Value::Object(_)) => is_atomic,
            (Shape::List { list, .. }, Value::Array(_)) => matches!(list, ListType::Unset | ListType::Atomic),
            (Shape::Custom { .. } | Shape::Deduced, Value::Object(_)) => false,
            _ => true,
        }
    }

    /// How two values of this place divide; absent and `null` ones go along with the other.
    ///
    /// Where both are empty, they count as one value, so that empty and `null` stay apart.
    pub(super) fn parts<'a>(self, a: Option<&'a Value>, b: Option<&'a Value>) -> Parts<'a> {
        let is_leaf = |value: Option<&Value>| value.is_some_and(|value| !value.is_null() && self.is_leaf(value));
        if is_leaf(a) || is_leaf(b) {
            return Parts::Leaf;
        }
        let map = |value: Option<&'a Value>| value.and_then(Value::as_object);
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
        match (map(a), map(b)) {
            (None, None) => match (list(a), list(b)) {
                ([], []) => Parts::Leaf,
                (a, b) => Parts::List(a, b),
            },
            (a, b) if a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) => Parts::Leaf,
            (a, b) => Parts::Map(a, b),
        }
    }

    /// The fields that identify the items of this list.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self.0 {
            Shape::List { list: ListType::Map(keys), .. } => keys,
            _ => &[],
        }
    }

    /// What identifies an item of this list; an error where a key is missing that has no default.
    pub(super) fn element(self, item: &Value) -> Result<Element, String> {
        let Shape::List { item: ty, list: ListType::Map(keys) } = self.0 else { return Ok(Element::value(item)) };
        let info = ty.message();
        let mut values = Map::new();
        for key in keys {
            let value = match item.get(key) {
                Some(value) => value.clone(),
                None => info.and_then(|info| info.field(key)).and_then(default_of).ok_or_else(|| {
                    format!("associative list with keys has an element that omits key field {key:?} (and doesn't have default value)")
                })?,
            };
            values.insert(*key, value);
        }
        Ok(Element::key(values))
    }
}

/// Whether this is one of the two fields that say what an object is, which the tables of types leave out.
fn is_type_meta(info: &TypeInfo, name: &str) -> bool {
    info.kind.is_some() && matches!(name, "apiVersion" | "kind")
}

/// The default that the API publishes for a key.
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
