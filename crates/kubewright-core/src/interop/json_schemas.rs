//! JSON schemas of our types for schemars, so that user-defined types can contain them. Those of
//! generated types are derived from the type tables.
//!
//! Schemas are inlined, because CRD schemas do not support references.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value as Json, json};

use crate::codec::message::Message;
use crate::codec::scheme::{FieldInfo, Flags, ListType, Type, TypeInfo};
use crate::{ByteString, Duration, IntOrString, List, Map, MicroTime, Quantity, Str, Time, Value};

/// The pattern of a quantity.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The name of a generated type, without its group and version.
pub fn name(message: &dyn Message) -> &'static str {
    let name = message.scheme().name;
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

/// The schema of a generated type.
///
/// # Panics
/// Never: the tables always produce an object.
pub fn schema(message: &dyn Message) -> Schema {
    message_schema(message.scheme(), &mut Vec::new()).try_into().expect("an object is a schema")
}

/// The schema of a type; `around` are its enclosing types. A recursive type is unconstrained at the
/// recursion.
fn message_schema(info: &'static TypeInfo, around: &mut Vec<&'static str>) -> Json {
    if around.contains(&info.name) {
        return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    around.push(info.name);
    let mut properties = serde_json::Map::new();
    if info.kind.is_some() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
    }
    for field in info.fields {
        properties.insert(field.name.to_owned(), field_schema(field, around));
    }
    let required: Vec<&str> =
        info.fields.iter().filter(|field| field.flags.has(Flags::REQUIRED)).map(|field| field.name).collect();
    around.pop();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if info.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

/// The schema of a field, with its merge strategy for server-side apply.
fn field_schema(field: &FieldInfo, around: &mut Vec<&'static str>) -> Json {
    let mut schema = type_schema(field.ty, around);
    match (field.rules.list, field.ty) {
        (ListType::Atomic, _) => schema["x-kubernetes-list-type"] = "atomic".into(),
        (ListType::Set, Type::List(item)) if !matches!(item, Type::Message(info) if !info.atomic) => {
            schema["x-kubernetes-list-type"] = "set".into();
        }
        (ListType::Map(keys), Type::List(Type::Message(item))) => add_keys(&mut schema, item, keys),
        _ => {}
    }
    if field.rules.atomic_map {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

/// Adds the list-map keys. Servers require each key to be required or to have a default.
fn add_keys(schema: &mut Json, item: &'static TypeInfo, keys: &[&str]) {
    let mut defaults = Vec::new();
    for key in keys {
        let Some(field) = item.field(key) else { return };
        match field.rules.default.and_then(|json| serde_json::from_str::<Json>(json).ok()) {
            Some(default) => defaults.push((key, default)),
            None if field.flags.has(Flags::REQUIRED) => {}
            None => return,
        }
    }
    for (key, default) in defaults {
        schema["items"]["properties"][key]["default"] = default;
    }
    schema["x-kubernetes-list-type"] = "map".into();
    schema["x-kubernetes-list-map-keys"] = keys.into();
}

fn type_schema(ty: Type, around: &mut Vec<&'static str>) -> Json {
    match ty {
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Double => json!({"type": "number", "format": "double"}),
        Type::String => json!({"type": "string"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Quantity => {
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": true})
        }
        Type::IntOrString => {
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
        }
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Raw | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => {
            json!({"x-kubernetes-preserve-unknown-fields": true})
        }
        Type::Message(info) => message_schema(info, around),
        Type::List(item) => json!({"type": "array", "items": type_schema(*item, around)}),
        Type::Map(value) => json!({"type": "object", "additionalProperties": type_schema(*value, around)}),
    }
}

/// The schema of a generated type, for schemars.
#[doc(hidden)]
#[macro_export]
macro_rules! schema_impls {
    ($type:ty) => {
        impl $crate::generated_support::schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $crate::generated_support::name(&Self::default()).into()
            }
            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                $crate::message::Message::scheme(&Self::default()).name.into()
            }
            fn json_schema(
                _: &mut $crate::generated_support::schemars::SchemaGenerator,
            ) -> $crate::generated_support::schemars::Schema {
                $crate::generated_support::schema(&Self::default())
            }
        }
    };
}

/// The schemas of scalar types.
macro_rules! scalars {
    ($($type:ident: $schema:expr),* $(,)?) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                type_schema($schema, &mut Vec::new()).try_into().expect("an object is a schema")
            }
        }
    )*};
}

scalars! {
    ByteString: Type::Bytes,
    Duration: Type::String,
    IntOrString: Type::IntOrString,
    MicroTime: Type::MicroTime,
    Quantity: Type::Quantity,
    Str: Type::String,
    Time: Type::Time,
    Value: Type::Raw,
}

/// The schema of an equivalent type.
macro_rules! as_other {
    ($($type:ty as $other:ty),*) => {$(
        impl<T: JsonSchema> JsonSchema for $type {
            fn inline_schema() -> bool {
                <$other>::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                <$other>::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                <$other>::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$other>::json_schema(generator)
            }
        }
    )*};
}

as_other!(List<T> as Vec<T>, Map<T> as BTreeMap<String, T>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::v1::{Condition, LabelSelector, ObjectMeta};

    fn schema_of<T: JsonSchema>() -> Json {
        let mut settings = schemars::generate::SchemaSettings::openapi3();
        settings.inline_subschemas = true;
        settings.into_generator().into_root_schema_for::<T>().to_value()
    }

    #[test]
    fn a_generated_type_has_the_schema_of_its_table() {
        let schema = schema_of::<Condition>();
        assert_eq!(schema["properties"]["lastTransitionTime"], json!({"type": "string", "format": "date-time"}));
        assert_eq!(schema["properties"]["observedGeneration"], json!({"type": "integer", "format": "int64"}));
        assert_eq!(schema["required"], json!(["type", "status", "lastTransitionTime", "reason", "message"]));
        assert_eq!(schema_of::<LabelSelector>()["x-kubernetes-map-type"], "atomic");
        let owners = &schema_of::<ObjectMeta>()["properties"]["ownerReferences"];
        assert_eq!(owners["x-kubernetes-list-map-keys"], json!(["uid"]));
        assert_eq!(owners["items"]["properties"]["controller"]["type"], "boolean");
    }

    #[test]
    fn scalars_and_collections_have_the_schema_of_their_json() {
        assert_eq!(schema_of::<Str>()["type"], "string");
        assert_eq!(schema_of::<IntOrString>()["x-kubernetes-int-or-string"], true);
        assert_eq!(schema_of::<Quantity>()["pattern"], QUANTITY);
        assert_eq!(schema_of::<List<Time>>()["items"]["format"], "date-time");
        assert_eq!(schema_of::<Map<Quantity>>()["additionalProperties"]["pattern"], QUANTITY);
    }
}
