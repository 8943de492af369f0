//! The three unions of OpenAPI schemas: a schema, or something simpler in its place.

use kubewright_core::json::{Reader, Writer};
use kubewright_core::message::{Message, Scalar};
use kubewright_core::protobuf::{Encoder, Wire};
use kubewright_core::{DecodeError, Decoder, List, Str};

use crate::apiextensions::v1::JSONSchemaProps;

/// A schema for all items, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum JSONSchemaPropsOrArray {
    /// One for all.
    Schema(Box<JSONSchemaProps>),
    /// One for each.
    Array(List<JSONSchemaProps>),
}

/// A schema, or whether anything is allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum JSONSchemaPropsOrBool {
    /// A value that matches the schema is allowed.
    Schema(Box<JSONSchemaProps>),
    /// Everything or nothing is allowed.
    Bool(bool),
}

/// A schema, or names of properties.
#[derive(Debug, Clone, PartialEq)]
pub enum JSONSchemaPropsOrStringArray {
    /// A schema.
    Schema(Box<JSONSchemaProps>),
    /// Names of properties.
    Array(List<Str>),
}

impl Default for JSONSchemaPropsOrArray {
    fn default() -> Self {
        JSONSchemaPropsOrArray::Array(List::new())
    }
}

impl Default for JSONSchemaPropsOrBool {
    fn default() -> Self {
        JSONSchemaPropsOrBool::Bool(false)
    }
}

impl Default for JSONSchemaPropsOrStringArray {
    fn default() -> Self {
        JSONSchemaPropsOrStringArray::Array(List::new())
    }
}

fn read_schema(reader: &mut Reader<'_, '_>) -> Result<Box<JSONSchemaProps>, DecodeError> {
    let mut schema = Box::<JSONSchemaProps>::default();
    reader.message(&mut *schema)?;
    Ok(schema)
}

fn decode_schema(wire: Wire<'_>, decoder: &mut Decoder) -> Result<Box<JSONSchemaProps>, DecodeError> {
    let mut schema = Box::<JSONSchemaProps>::default();
    decoder.nested_message(&mut *schema, wire.bytes()?)?;
    Ok(schema)
}

impl Scalar for JSONSchemaPropsOrArray {
    kubewright_core::scalar_equality!();
    fn clear(&mut self) {
        *self = Self::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = match reader.peek() {
            b'{' => Self::Schema(read_schema(reader)?),
            b'[' => {
                let mut list = List::new();
                reader.items(|reader, _| {
                    list.push(*read_schema(reader)?);
                    Ok(())
                })?;
                Self::Array(list)
            }
            _ => return Err(reader.expected("schema or array of schemas")),
        };
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Schema(schema) => writer.message(&**schema),
            Self::Array(list) => writer.items(list, |writer, schema| writer.message(schema)),
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let mut list = List::new();
        for field in wire.fields()? {
            match field? {
                (1, wire) => {
                    *self = Self::Schema(decode_schema(wire, decoder)?);
                    return Ok(());
                }
                (2, wire) => list.push(*decode_schema(wire, decoder)?),
                _ => {}
            }
        }
        *self = Self::Array(list);
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| match self {
            Self::Schema(schema) => inner.delimited(1, |inner| inner.message(&**schema)),
            Self::Array(list) => {
                list.iter().for_each(|schema| inner.delimited(2, |inner| inner.message(schema as &dyn Message)));
            }
        });
    }
}

impl Scalar for JSONSchemaPropsOrBool {
    kubewright_core::scalar_equality!();
    fn clear(&mut self) {
        *self = Self::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = match reader.peek() {
            b'{' => Self::Schema(read_schema(reader)?),
            b't' | b'f' => Self::Bool(reader.boolean()?),
            _ => return Err(reader.expected("schema or boolean")),
        };
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Schema(schema) => writer.message(&**schema),
            Self::Bool(allows) => writer.raw(if *allows { "true" } else { "false" }),
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        for field in wire.fields()? {
            match field? {
                (1, wire) => *self = Self::Bool(wire.varint()? != 0),
                (2, wire) => *self = Self::Schema(decode_schema(wire, decoder)?),
                _ => {}
            }
        }
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| match self {
            // Go allows everything that fits wherever there is a schema.
            Self::Schema(schema) => {
                inner.varint(1, 1);
                inner.delimited(2, |inner| inner.message(&**schema));
            }
            Self::Bool(allows) => inner.varint(1, (*allows).into()),
        });
    }
}

impl Scalar for JSONSchemaPropsOrStringArray {
    kubewright_core::scalar_equality!();
    fn clear(&mut self) {
        *self = Self::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = match reader.peek() {
            b'{' => Self::Schema(read_schema(reader)?),
            b'[' => {
                let mut list = List::new();
                reader.items(|reader, _| {
                    list.push(reader.text()?);
                    Ok(())
                })?;
                Self::Array(list)
            }
            _ => return Err(reader.expected("schema or array of strings")),
        };
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Schema(schema) => writer.message(&**schema),
            Self::Array(list) => writer.items(list, |writer, text| writer.string(text)),
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let mut list = List::new();
        for field in wire.fields()? {
            match field? {
                (1, wire) => {
                    *self = Self::Schema(decode_schema(wire, decoder)?);
                    return Ok(());
                }
                (2, wire) => list.push(decoder.text(wire.bytes()?)?),
                _ => {}
            }
        }
        *self = Self::Array(list);
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| match self {
            Self::Schema(schema) => inner.delimited(1, |inner| inner.message(&**schema)),
            Self::Array(list) => list.iter().for_each(|text| inner.bytes(2, text.as_bytes())),
        });
    }
}
