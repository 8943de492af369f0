//! Apply configurations: the fields of an object that a program manages, with typed setters.
//!
//! Server-side apply sends only the fields that a program manages. A typed object cannot express
//! that: its required numbers, booleans and strings are always set. client-go therefore has a
//! second struct for each type, with every field optional. Here the builder of a type, such as
//! `DeploymentSpecApply`, is a tree with typed setters. All builders share the code in this module,
//! and a setter is compiled only where it is called.
//!
//! Setters of nested types take a closure that changes the current fields, so that an extracted
//! configuration is edited in the same way as a new one:
//!
//! ```text
//! DeploymentApply::new("web").spec(|spec| spec.replicas(0))
//! ```

use std::fmt;

use crate::codec::scheme::{KindInfo, TypeInfo};
use crate::{ByteString, IntOrString, List, Map, MicroTime, Object, Quantity, Str, Time, Value};

/// The fields that a builder has set.
///
/// `Debug` prints their names only, because values may be secret.
#[derive(Clone, Default, PartialEq)]
pub struct ApplyFields(Map<Value>);

/// A builder of some fields of a type.
pub trait ApplyPart: Default {
    /// The fields that are set.
    fn fields(&self) -> &ApplyFields;

    /// The fields that are set, to be changed.
    fn fields_mut(&mut self) -> &mut ApplyFields;

    /// A builder with these fields.
    fn from_fields(fields: ApplyFields) -> Self {
        let mut part = Self::default();
        *part.fields_mut() = fields;
        part
    }

    /// Removes a field by its JSON name, for example from an extracted configuration. If it was
    /// applied before, applying the rest removes it from the object, unless another manager owns
    /// it.
    #[must_use]
    fn without(mut self, field: &str) -> Self {
        self.fields_mut().0.remove(field);
        self
    }
}

/// A builder of the fields of an object.
pub trait ApplyObject: ApplyPart {
    /// The type of the object.
    type Object: Object;

    /// Its kind.
    fn kind() -> KindInfo;

    /// The description of how its parts merge.
    fn schema() -> ApplySchema;

    /// The name, if it is set.
    fn name(&self) -> Option<&str> {
        self.fields().0.get("metadata")?.get("name")?.as_str()
    }
}

/// How the parts of an object merge.
#[derive(Debug, Clone)]
pub enum ApplySchema {
    /// The table of a generated type.
    Table(&'static TypeInfo),
    /// A structural JSON schema.
    Json(Value),
}

/// A type with a builder.
pub trait HasApply {
    /// The builder.
    type Apply: ApplyPart;
}

impl ApplyFields {
    /// The value of a field, by its JSON name.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// Sets a field.
    pub fn set(&mut self, field: &'static str, value: Value) {
        self.0.insert(Str::from_static(field), value);
    }

    /// Sets several fields.
    pub fn extend(&mut self, fields: Map<Value>) {
        fields.iter().for_each(|(name, value)| drop(self.0.insert(name.clone(), value.clone())));
    }

    /// The fields as a value.
    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// The fields as a value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// The members of an object; empty for other values.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(members) => ApplyFields(members),
            _ => ApplyFields::default(),
        }
    }

    /// Takes the fields of a nested object.
    fn take(&mut self, field: &str) -> ApplyFields {
        self.0.remove(field).map(ApplyFields::from_value).unwrap_or_default()
    }

    /// The entries of a map, which is created if necessary.
    fn entries(&mut self, field: &'static str) -> &mut Map<Value> {
        let map = self.0.get_or_insert_with(Str::from_static(field), Value::default);
        if map.as_object().is_none() {
            *map = Value::Object(Map::default());
        }
        map.as_object_mut().expect("it became an object two lines up")
    }

    /// Adds items to a list whose items are identified by `keys`.
    fn add_keyed(&mut self, field: &'static str, keys: &[&str], added: impl Iterator<Item = ApplyFields>) {
        let mut items: Vec<Value> = match self.0.remove(field) {
            Some(Value::Array(items)) => items.iter().cloned().collect(),
            _ => Vec::new(),
        };
        for item in added {
            let same = |other: &&mut Value| keys.iter().all(|key| other.get(key) == item.get(key));
            match items.iter_mut().find(same).and_then(Value::as_object_mut) {
                Some(fields) => {
                    item.0.iter().for_each(|(name, value)| drop(fields.insert(name.clone(), value.clone())));
                }
                None => items.push(item.into_value()),
            }
        }
        self.set(field, Value::from(items));
    }
}

impl fmt::Debug for ApplyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(Str::as_str)).finish()
    }
}

/// Code of setters.
#[doc(hidden)]
pub mod setters {
    use super::*;

    /// Sets a field.
    #[inline]
    pub fn value<P: ApplyPart>(mut part: P, field: &'static str, value: Value) -> P {
        part.fields_mut().set(field, value);
        part
    }

    /// Changes a nested object.
    #[inline]
    pub fn object<P: ApplyPart, A: ApplyPart>(mut part: P, field: &'static str, change: impl FnOnce(A) -> A) -> P {
        let nested = change(A::from_fields(part.fields_mut().take(field)));
        value(part, field, nested.fields().to_value())
    }

    /// Sets a list of scalars.
    #[inline]
    pub fn values<P: ApplyPart>(part: P, field: &'static str, items: impl Iterator<Item = Value>) -> P {
        value(part, field, Value::Array(items.collect::<List<Value>>()))
    }

    /// Adds entries to a map.
    #[inline]
    pub fn entries<P: ApplyPart>(mut part: P, field: &'static str, entries: impl Iterator<Item = (Str, Value)>) -> P {
        let map = part.fields_mut().entries(field);
        entries.for_each(|(key, value)| drop(map.insert(key, value)));
        part
    }

    /// Adds items to a list that is identified by keys.
    #[inline]
    pub fn keyed<P: ApplyPart, A: ApplyPart>(
        mut part: P,
        field: &'static str,
        keys: &[&str],
        items: impl IntoIterator<Item = A>,
    ) -> P {
        part.fields_mut().add_keyed(field, keys, items.into_iter().map(|item| item.fields().clone()));
        part
    }
}

/// Generates builders.
///
/// `value(T)` is a number or boolean, `into(T)` another scalar, `values(T)` a list of scalars,
/// `entries(T)` a map of scalars, `object(A)` a nested type, `items(A)` a list of them, `keyed(A,
/// …)` a list whose items have keys, and `objects(A)` a map of them.
#[doc(hidden)]
#[macro_export]
macro_rules! apply_part {
    ($(#[$doc:meta])* $vis:vis $name:ident for $type:ty {
        $($(#[$field_doc:meta])* $field:ident $json:literal $shape:ident($($of:tt)*);)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Default, Debug, PartialEq)]
        #[must_use]
        $vis struct $name($crate::apply_configuration::ApplyFields);

        impl $crate::apply_configuration::ApplyPart for $name {
            #[inline]
            fn fields(&self) -> &$crate::apply_configuration::ApplyFields {
                &self.0
            }
            #[inline]
            fn fields_mut(&mut self) -> &mut $crate::apply_configuration::ApplyFields {
                &mut self.0
            }
        }

        impl $crate::apply_configuration::HasApply for $type {
            type Apply = $name;
        }

        impl $name {
            $($crate::apply_setter! { $(#[$field_doc])* $field $json $shape($($of)*) })*
        }
    };
}

/// Generates one setter.
#[doc(hidden)]
#[macro_export]
macro_rules! apply_setter {
    ($(#[$doc:meta])* $field:ident $json:literal value($type:ty)) => {
        $(#[$doc])*
        #[inline]
        pub fn $field(self, value: $type) -> Self {
            $crate::apply_configuration::setters::value(self, $json, $crate::Value::from(value))
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal into($type:ty)) => {
        $(#[$doc])*
        #[inline]
        pub fn $field(self, value: impl Into<$type>) -> Self {
            $crate::apply_configuration::setters::value(self, $json, $crate::Value::from(value.into()))
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal values($type:ty)) => {
        $(#[$doc])*
        ///
        /// Replaces the list.
        #[inline]
        pub fn $field(self, items: impl IntoIterator<Item = impl Into<$type>>) -> Self {
            let items = items.into_iter().map(|item| $crate::Value::from(item.into()));
            $crate::apply_configuration::setters::values(self, $json, items)
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal entries($type:ty)) => {
        $(#[$doc])*
        ///
        /// Adds these entries.
        #[inline]
        pub fn $field(self, entries: impl IntoIterator<Item = (impl Into<$crate::Str>, impl Into<$type>)>) -> Self {
            let entries = entries.into_iter().map(|(key, value)| (key.into(), $crate::Value::from(value.into())));
            $crate::apply_configuration::setters::entries(self, $json, entries)
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal object($part:ty)) => {
        $(#[$doc])*
        ///
        /// The closure receives the fields that are already set.
        #[inline]
        pub fn $field(self, change: impl FnOnce($part) -> $part) -> Self {
            $crate::apply_configuration::setters::object(self, $json, change)
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal items($part:ty)) => {
        $(#[$doc])*
        ///
        /// Replaces the list.
        #[inline]
        pub fn $field(self, items: impl IntoIterator<Item = $part>) -> Self {
            let items = items.into_iter().map(|item| $crate::apply_configuration::ApplyPart::fields(&item).to_value());
            $crate::apply_configuration::setters::values(self, $json, items)
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal keyed($part:ty, $($key:literal),+)) => {
        $(#[$doc])*
        ///
        #[doc = concat!("Adds these items. The fields of an item replace those of the item with the same `", $($key, "` `",)+ "`.")]
        #[inline]
        pub fn $field(self, items: impl IntoIterator<Item = $part>) -> Self {
            $crate::apply_configuration::setters::keyed(self, $json, &[$($key),+], items)
        }
    };
    ($(#[$doc:meta])* $field:ident $json:literal objects($part:ty)) => {
        $(#[$doc])*
        ///
        /// Adds these entries.
        #[inline]
        pub fn $field(self, entries: impl IntoIterator<Item = (impl Into<$crate::Str>, $part)>) -> Self {
            let entries = entries.into_iter();
            let entries = entries.map(|(key, item)| (key.into(), $crate::apply_configuration::ApplyPart::fields(&item).to_value()));
            $crate::apply_configuration::setters::entries(self, $json, entries)
        }
    };
}

/// Generates what the builders of objects have in addition.
#[doc(hidden)]
#[macro_export]
macro_rules! apply_object {
    ($name:ident, $type:ty, $table:ident) => {
        impl $crate::apply_configuration::ApplyObject for $name {
            type Object = $type;
            #[inline]
            fn kind() -> $crate::scheme::KindInfo {
                $table.kind.expect("types of objects have a kind")
            }
            #[inline]
            fn schema() -> $crate::apply_configuration::ApplySchema {
                $crate::apply_configuration::ApplySchema::Table(&$table)
            }
        }

        $crate::apply_metadata!($name);
    };
}

/// Generates the constructor of a builder of objects, and short forms of frequent metadata.
#[doc(hidden)]
#[macro_export]
macro_rules! apply_metadata {
    ($name:ident) => {
        impl $name {
            /// A configuration with only the name.
            #[inline]
            pub fn new(name: impl Into<$crate::Str>) -> Self {
                Self::default().metadata(|metadata| metadata.name(name))
            }

            /// The namespace. By default that of the request.
            #[inline]
            pub fn namespace(self, namespace: impl Into<$crate::Str>) -> Self {
                self.metadata(|metadata| metadata.namespace(namespace))
            }

            /// Adds labels.
            #[inline]
            pub fn labels(
                self,
                labels: impl IntoIterator<Item = (impl Into<$crate::Str>, impl Into<$crate::Str>)>,
            ) -> Self {
                self.metadata(|metadata| metadata.labels(labels))
            }

            /// Adds annotations.
            #[inline]
            pub fn annotations(
                self,
                annotations: impl IntoIterator<Item = (impl Into<$crate::Str>, impl Into<$crate::Str>)>,
            ) -> Self {
                self.metadata(|metadata| metadata.annotations(annotations))
            }
        }
    };
}

macro_rules! scalar_values {
    ($($type:ty),*) => {$(
        impl From<$type> for Value {
            #[inline]
            fn from(value: $type) -> Self {
                Value::String(value.to_string().into())
            }
        }
    )*};
}

scalar_values!(Quantity, Time, MicroTime);

impl From<ByteString> for Value {
    #[inline]
    fn from(value: ByteString) -> Self {
        Value::String(value.to_base64().into())
    }
}

impl From<IntOrString> for Value {
    #[inline]
    fn from(value: IntOrString) -> Self {
        match value {
            IntOrString::Int(number) => Value::from(number),
            IntOrString::String(text) => Value::from(text),
        }
    }
}
