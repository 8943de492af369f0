//! Structs and enums from the schema of a definition.
//!
//! Rules without an effect on the form of values are ignored: `anyOf`, patterns, limits, CEL.

use std::collections::{BTreeMap, BTreeSet};

use kubewright_core::Value;

use super::idents;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    Boolean,
    Integer {
        bits: u8,
    },
    Number,
    Text,
    IntOrString,
    /// Any JSON.
    Any,
    List(Box<Shape>),
    Map(Box<Shape>),
    /// `null` is a value.
    Nullable(Box<Shape>),
    /// A struct or enum, by its index.
    Named(usize),
}

/// A struct or enum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub doc: String,
    pub body: ItemBody,
}

/// The content of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemBody {
    /// `has_other_fields`: unknown fields are preserved.
    Struct { fields: Vec<Field>, has_other_fields: bool },
    /// The values of an enum of strings.
    Enum { values: Vec<String> },
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    pub json_name: String,
    pub name: String,
    pub doc: String,
    pub shape: Shape,
    pub is_required: bool,
}

/// The items of a resource. Equal structs are one item.
#[derive(Debug, Default)]
pub struct Items {
    items: Vec<Item>,
    index_of: BTreeMap<ItemBody, usize>,
    names: BTreeSet<String>,
}

impl Items {
    /// None yet. `reserved` are names that no item may have.
    pub fn new(reserved: impl IntoIterator<Item = String>) -> Self {
        Items { names: reserved.into_iter().collect(), ..Items::default() }
    }

    /// The items in the order of their first use.
    pub fn all(&self) -> &[Item] {
        &self.items
    }

    /// The type of values that a schema allows. `name` is the name of a new item.
    pub fn shape(&mut self, schema: &Value, name: &str) -> Shape {
        let shape = self.shape_of(schema, name);
        if is_true(schema, "nullable") && shape != Shape::Any { Shape::Nullable(Box::new(shape)) } else { shape }
    }

    fn shape_of(&mut self, schema: &Value, name: &str) -> Shape {
        let text = |field: &str| schema.get(field).and_then(Value::as_str);
        if is_true(schema, "x-kubernetes-int-or-string") || text("format") == Some("int-or-string") {
            return Shape::IntOrString;
        }
        match text("type") {
            Some("boolean") => Shape::Boolean,
            Some("integer") => Shape::Integer { bits: if text("format") == Some("int32") { 32 } else { 64 } },
            Some("number") => Shape::Number,
            Some("string") => self.string(schema, name),
            Some("array") => {
                let item = schema.get("items").map_or(Shape::Any, |items| self.shape(items, name));
                Shape::List(Box::new(item))
            }
            Some("object") => self.object(schema, name),
            _ if schema.get("properties").is_some() => self.object(schema, name),
            _ => Shape::Any,
        }
    }

    fn string(&mut self, schema: &Value, name: &str) -> Shape {
        let values = schema.get("enum").and_then(Value::as_array);
        let texts: Option<Vec<String>> = values
            .map(|values| {
                values.iter().filter(|value| !value.is_null()).map(|value| value.as_str().map(str::to_owned)).collect()
            })
            .unwrap_or_default();
        match texts {
            Some(mut values) if !values.is_empty() => {
                let mut seen = BTreeSet::new();
                values.retain(|value| seen.insert(value.clone()));
                self.named(name, doc(schema), ItemBody::Enum { values })
            }
            _ => Shape::Text,
        }
    }

    fn object(&mut self, schema: &Value, name: &str) -> Shape {
        let properties = schema.get("properties").and_then(Value::as_object);
        let is_open = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let additional = schema.get("additionalProperties");
        if properties.is_none_or(|properties| properties.is_empty()) {
            return match additional {
                Some(values) if values.as_object().is_some_and(|values| !values.is_empty()) => {
                    Shape::Map(Box::new(self.shape(values, name)))
                }
                Some(allowed) if allowed.as_bool() != Some(false) => Shape::Map(Box::new(Shape::Any)),
                _ if is_open || is_true(schema, "x-kubernetes-embedded-resource") => Shape::Any,
                // The server removes all fields. Some APIs have such marks: `selfSigned: {}`.
                _ => self.named(name, doc(schema), ItemBody::Struct { fields: Vec::new(), has_other_fields: false }),
            };
        }
        let body = self.body(schema, name, &[]);
        self.named(name, doc(schema), body)
    }

    /// The struct of a schema with properties, without those in `skipped`.
    pub fn body(&mut self, schema: &Value, name: &str, skipped: &[&str]) -> ItemBody {
        let required: BTreeSet<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields: Vec<Field> = Vec::new();
        for (json_name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.iter())
        {
            let json_name = json_name.as_str();
            if skipped.contains(&json_name) {
                continue;
            }
            let shape = self.shape(property, &format!("{name}{}", idents::camel(json_name)));
            let field = idents::free(idents::field(json_name), |name| fields.iter().any(|other| other.name == name));
            fields.push(Field {
                json_name: json_name.to_owned(),
                name: field,
                doc: doc(property),
                shape,
                is_required: required.contains(json_name),
            });
        }
        let is_open = is_true(schema, "x-kubernetes-preserve-unknown-fields")
            || schema.get("additionalProperties").is_some_and(|additional| additional.as_bool() != Some(false))
            || is_true(schema, "x-kubernetes-embedded-resource");
        ItemBody::Struct { fields, has_other_fields: is_open }
    }

    fn named(&mut self, name: &str, doc: String, body: ItemBody) -> Shape {
        // The same struct has the same documentation of its fields, but maybe not of itself.
        // Empty structs are marks, whose names matter.
        let is_empty = matches!(&body, ItemBody::Struct { fields, .. } if fields.is_empty());
        if let Some(index) = self.index_of.get(&body).filter(|_| !is_empty) {
            return Shape::Named(*index);
        }
        Shape::Named(self.add(name, doc, body))
    }

    /// Adds an item under this name, or one with a number.
    pub fn add(&mut self, name: &str, doc: String, body: ItemBody) -> usize {
        let name = idents::free(name.to_owned(), |name| self.names.contains(name));
        self.names.insert(name.clone());
        self.index_of.insert(body.clone(), self.items.len());
        self.items.push(Item { name, doc, body });
        self.items.len() - 1
    }

    /// Whether the type of an item has a default.
    pub fn has_default(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Named(index) => match &self.items[*index].body {
                ItemBody::Struct { fields, .. } => {
                    fields.iter().all(|field| !field.is_required || self.has_default(&field.shape))
                }
                ItemBody::Enum { .. } => false,
            },
            _ => true,
        }
    }
}

fn is_true(schema: &Value, field: &str) -> bool {
    schema.get(field).and_then(Value::as_bool) == Some(true)
}

/// The description of a schema.
pub fn doc(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}
