//! The CEL types of values of a schema.

use std::sync::Arc;

use kubewright_cel::{Field, ListKind, Type, escape_field_name};
use kubewright_core::Map;

use crate::schema::{AdditionalProperties, ListType, Schema};

impl Schema {
    /// The type of values in rules, `None` if rules cannot access them.
    pub(crate) fn cel_type(&self, is_object: bool) -> Option<Type> {
        if self.int_or_string {
            return Some(Type::Dyn);
        }
        Some(match (&*self.ty, &*self.format) {
            ("boolean", _) => Type::Bool,
            ("integer", _) => Type::Int,
            ("number", _) => Type::Double,
            ("string", "byte") => Type::Bytes,
            ("string", "duration") => Type::Duration,
            ("string", "date" | "date-time") => Type::Timestamp,
            ("string", _) => Type::String,
            ("array", _) => {
                let keys = || self.list_map_keys.iter().filter_map(|key| escape_field_name(key));
                let kind = match self.list_type {
                    ListType::Atomic => ListKind::Atomic,
                    ListType::Set => ListKind::Set,
                    ListType::Map => ListKind::Map(keys().collect()),
                };
                Type::List(Arc::new(self.items.as_deref()?.cel_type(false)?), kind)
            }
            ("object", _) => match &self.additional {
                Some(AdditionalProperties::Schema(values)) => Type::map(values.cel_type(false)?),
                Some(AdditionalProperties::Allowed(true)) => Type::map(Type::Dyn),
                _ => Type::Object(Arc::new(self.field_types(is_object || self.embedded_resource))),
            },
            _ => return None,
        })
    }

    fn field_types(&self, is_object: bool) -> Map<Field> {
        let known = self.properties.iter().filter_map(|(name, schema)| {
            let field = Field { name: name.clone(), ty: schema.cel_type(false)? };
            Some((escape_field_name(name)?, field))
        });
        let mut fields: Map<Field> = known.collect();
        if is_object {
            let metadata = Type::object([("name", Type::String), ("generateName", Type::String)]);
            for (name, ty) in [("apiVersion", Type::String), ("kind", Type::String), ("metadata", metadata)] {
                fields.insert(name, Field { name: name.into(), ty });
            }
        }
        fields
    }
}
