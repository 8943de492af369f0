//! Generates JSON for a type from its table, with random or complete values.
//!
//! The generator does not use the type's own code, so that a round trip compares the type with its
//! table. The text is canonical: no empty values, no `null`, and no zero of Go value fields,
//! because protobuf cannot represent them.

use std::collections::HashMap;
use std::sync::LazyLock;

use kubewright_core::json::Writer;
use kubewright_core::message::TypeEntry;
use kubewright_core::message::{Message, Ref};
use kubewright_core::scheme::{FieldInfo, Flags, Type, TypeInfo};
use kubewright_core::{ByteString, MicroTime, Time};
use serde_json::{Map, Value, json};

/// All types of the API, by the name of their table.
pub static TYPES: LazyLock<HashMap<&str, &TypeEntry>> = LazyLock::new(|| {
    let all = kubewright_api::types().into_iter().chain(kubewright_core::meta::v1::TYPES.iter().copied());
    all.map(|entry| (entry.info.name, entry)).collect()
});

/// The types in a fixed order.
pub fn types() -> Vec<&'static TypeEntry> {
    let mut types: Vec<_> = TYPES.values().copied().collect();
    types.sort_by_key(|entry| entry.info.name);
    types
}

/// An empty object of a type.
pub fn new(info: &TypeInfo) -> Box<dyn Message> {
    (TYPES[info.name].new)()
}

/// The JSON of a message in a request.
pub fn to_json(message: &dyn Message) -> String {
    let mut out = Vec::new();
    Writer::new(&mut out).object(message);
    String::from_utf8(out).expect("strings are UTF-8")
}

/// The JSON of a message in a server's response.
pub fn to_server_json(message: &dyn Message) -> String {
    let mut out = Vec::new();
    Writer::new(&mut out).as_server().object(message);
    String::from_utf8(out).expect("strings are UTF-8")
}

/// Adds kind and version to an object whose type has them.
pub fn with_kind(info: &TypeInfo, object: &mut Value) {
    if let Some(info) = info.kind {
        object["kind"] = info.kind.into();
        object["apiVersion"] = info.api_version.into();
    }
}

/// Panics with the first difference of two values; the complete objects are too long to print.
#[track_caller]
pub fn assert_same(found: &Value, wanted: &Value, context: impl std::fmt::Display) {
    if let Some(difference) = difference(found, wanted) {
        panic!("{context}: {difference}");
    }
}

fn difference(found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(a, b).map(|rest| format!(".{key}{rest}")),
                (a, b) => Some(format!(".{key}: found {}, wanted {}", shown(a), shown(b))),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(index, (a, b))| difference(a, b).map(|rest| format!("[{index}]{rest}"))),
        (a, b) => (a != b).then(|| format!(": found {a}, wanted {b}")),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), Value::to_string)
}

/// Makes the choices of the generator.
pub trait Choices {
    /// The indices of the set fields, in any order.
    fn fields(&mut self, info: &TypeInfo, depth: usize) -> Vec<usize>;
    /// The number of items of a list or map; at least one.
    fn count(&mut self) -> usize;
    /// A value of a type that is neither a message, a list nor a map.
    fn scalar(&mut self, ty: &Type) -> Value;
    /// A key of a map.
    fn key(&mut self) -> String;
    /// Called before the content of a field.
    fn enter(&mut self, _: &'static str) {}
    /// Called after the content of a field.
    fn leave(&mut self) {}
}

/// An object of a type, without kind and version.
pub fn message(info: &'static TypeInfo, choices: &mut dyn Choices, depth: usize) -> Value {
    let mut fields = Map::new();
    let empty = new(info);
    for (index, field) in info.fields.iter().enumerate() {
        match empty.get(index) {
            Ref::Absent => {}
            // Always written; its type defines the unset form.
            Ref::Message(inner) => {
                fields.insert(field.name.into(), serde_json::from_str(&to_json(inner)).expect("we wrote it"));
            }
            Ref::Bool(value) => drop(fields.insert(field.name.into(), value.into())),
            Ref::Int(value) => drop(fields.insert(field.name.into(), value.into())),
            Ref::Str(text) => drop(fields.insert(field.name.into(), text.into())),
            other => {
                fields.insert(field.name.into(), serde_json::from_str(&format!("{other:?}")).expect("a scalar"));
            }
        }
    }
    for index in choices.fields(info, depth) {
        let field = &info.fields[index];
        choices.enter(field.name);
        let mut value = value(&field.ty, choices, depth);
        choices.leave();
        if let (true, Type::List(Type::Message(item))) = (field.flags.has(Flags::TYPED), &field.ty) {
            value.as_array_mut().expect("a list").iter_mut().for_each(|value| with_kind(item, value));
        }
        if !is_lost(field, &value) {
            fields.insert(field.name.into(), value);
        }
    }
    Value::Object(fields)
}

fn value(ty: &'static Type, choices: &mut dyn Choices, depth: usize) -> Value {
    match ty {
        Type::Message(info) => message(info, choices, depth + 1),
        Type::List(item) => (0..choices.count()).map(|_| value(item, choices, depth)).collect(),
        Type::Map(item) => (0..choices.count()).map(|_| (choices.key(), value(item, choices, depth))).collect(),
        Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => schema(ty, choices, depth),
        scalar => choices.scalar(scalar),
    }
}

fn schema(ty: &'static Type, choices: &mut dyn Choices, depth: usize) -> Value {
    let info = TYPES["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"].info;
    let other = choices.scalar(&Type::Bool) == json!(true);
    match ty {
        Type::SchemaOrArray if other => (0..choices.count()).map(|_| message(info, choices, depth + 1)).collect(),
        Type::SchemaOrBool if other => choices.scalar(&Type::Bool),
        Type::SchemaOrStrings if other => (0..choices.count()).map(|_| choices.scalar(&Type::String)).collect(),
        _ => message(info, choices, depth + 1),
    }
}

/// Whether protobuf treats the value as absent: a zero in a field that is no Go pointer.
pub fn is_lost(field: &FieldInfo, value: &Value) -> bool {
    let zero = match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => !matches!(field.ty, Type::IntOrString) && number.as_f64() == Some(0.0),
        Value::String(text) => !matches!(field.ty, Type::IntOrString | Type::Quantity) && text.is_empty(),
        _ => false,
    };
    zero && !field.flags.has(Flags::POINTER | Flags::REQUIRED) && !matches!(field.ty, Type::SchemaOrBool | Type::Raw)
}

/// Choices from random bytes. After the last byte everything is absent or zero, so that shorter
/// input yields smaller values.
pub struct Entropy<'a> {
    bytes: &'a [u8],
}

impl<'a> Entropy<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Entropy { bytes }
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn text(&mut self) -> String {
        const TEXTS: &[&str] = &[
            "",
            "a",
            "web-0",
            "exactly 16 bytes",
            "registry.example.com/shop/web:1.0",
            "\"quoted\" and \\ and /",
            "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}",
            "åäö 漢字 \u{2028}\u{ffff}",
            "😀\u{10ffff}",
            "null",
            "<b>&amp;</b>",
            "  spaces  ",
        ];
        match self.below(TEXTS.len() + 3) {
            at if at < TEXTS.len() => TEXTS[at].to_owned(),
            at if at == TEXTS.len() => "long ".repeat(self.below(200)),
            _ => (0..self.below(24)).map(|_| char::from(self.byte())).collect(),
        }
    }

    fn integer(&mut self, bits: u32) -> i64 {
        let (least, most) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => -1,
            3 => least,
            4 => most,
            5 => i64::from(self.byte()),
            _ => self.long() >> (64 - bits),
        }
    }

    fn quantity(&mut self) -> String {
        const QUANTITIES: &[&str] = &[
            "0",
            "1",
            "100m",
            "250m",
            "1500m",
            "64Mi",
            "1Gi",
            "1500Mi",
            "7Ei",
            "1k",
            "3M",
            "12e6",
            "-5",
            "-1Ki",
            "1n",
            "9223372036854775807",
            "-9223372036854775807",
            "123456789123456789",
            "1u",
            "1E",
            "5e-3",
        ];
        let text = match self.below(QUANTITIES.len() + 2) {
            at if at < QUANTITIES.len() => QUANTITIES[at].to_owned(),
            _ => format!("{}m", self.integer(32)),
        };
        let quantity: kubewright_core::Quantity = text.parse().expect("a quantity");
        quantity.to_canonical().to_string()
    }

    fn raw(&mut self) -> Value {
        match self.below(6) {
            0 => json!({}),
            1 => json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}),
            2 => json!({"apiVersion": "v1", "kind": "Foo", "list": [1, -2.5, true, null, "x"], "deep": [[[{}]]]}),
            3 => json!(self.text()),
            4 => json!([self.integer(64), self.text()]),
            _ => json!(true),
        }
    }
}

impl Choices for Entropy<'_> {
    fn fields(&mut self, info: &TypeInfo, depth: usize) -> Vec<usize> {
        if info.fields.is_empty() || depth > 8 {
            return Vec::new();
        }
        let count = self.below(7);
        (0..count).map(|_| self.below(info.fields.len())).collect()
    }

    fn count(&mut self) -> usize {
        1 + self.below(3)
    }

    fn key(&mut self) -> String {
        self.text()
    }

    fn scalar(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Bool => json!(self.byte() & 1 == 1),
            Type::Int32 => json!(self.integer(32)),
            Type::Int64 => json!(self.integer(64)),
            Type::Double => match self.below(8) {
                0 => json!(0),
                1 => json!(-1000),
                other => json!([1.5, -0.1, 1e21, 1e-9, 123456.75, f64::MAX][other - 2]),
            },
            Type::String => json!(self.text()),
            Type::Bytes => json!(ByteString::from(self.text().as_bytes()).to_base64()),
            Type::Quantity => json!(self.quantity()),
            Type::IntOrString if self.byte() & 1 == 1 => json!(self.text()),
            Type::IntOrString => json!(self.integer(32)),
            Type::Time => {
                let span = Time::MAX.as_unix() - Time::MIN.as_unix();
                let time = Time::from_unix(Time::MIN.as_unix() + self.long().rem_euclid(span + 1)).expect("in range");
                if time.is_zero() { json!("1970-01-01T00:00:00Z") } else { json!(time.to_string()) }
            }
            Type::MicroTime => {
                let span = MicroTime::MAX.as_unix_micros() - MicroTime::MIN.as_unix_micros();
                let micros = MicroTime::MIN.as_unix_micros() + self.long().rem_euclid(span + 1);
                let time = MicroTime::from_unix_micros(micros).expect("in range");
                if time.is_zero() { json!("1970-01-01T00:00:00.000000Z") } else { json!(time.to_string()) }
            }
            Type::Raw => self.raw(),
            other => unreachable!("{other:?} is not a scalar"),
        }
    }
}

/// Choices that set every field once, except in recursive types, to values that identify the field.
#[derive(Default)]
pub struct Everything {
    types: Vec<&'static str>,
    path: Vec<&'static str>,
}

impl Choices for Everything {
    fn fields(&mut self, info: &TypeInfo, depth: usize) -> Vec<usize> {
        self.types.truncate(depth);
        if self.types.contains(&info.name) {
            return Vec::new();
        }
        self.types.push(TYPES[info.name].info.name);
        (0..info.fields.len()).collect()
    }

    fn count(&mut self) -> usize {
        1
    }

    fn key(&mut self) -> String {
        "key".into()
    }

    fn enter(&mut self, field: &'static str) {
        self.path.push(field);
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    fn scalar(&mut self, ty: &Type) -> Value {
        let name = self.path.last().expect("scalars are in fields");
        match ty {
            Type::Bool => json!(bool_of(name)),
            Type::Int32 | Type::Int64 => json!(integer_of(name)),
            Type::Double => json!(0.5),
            Type::Bytes => json!("AAEC"),
            Type::Quantity => json!(format!("{}", integer_of(name))),
            Type::Time => json!("2025-10-01T00:00:00Z"),
            Type::MicroTime => json!("2025-10-01T00:00:00.000001Z"),
            Type::Raw => json!({"path": self.path.join(".")}),
            _ => json!(self.path.join(".")),
        }
    }
}

/// A boolean derived from the field name.
pub fn bool_of(name: &str) -> bool {
    integer_of(name) & 1 == 1
}

/// A number derived from the field name, independent of its spelling (see [`plain`]).
pub fn integer_of(name: &str) -> i32 {
    let letters = plain(name);
    letters.bytes().fold(7, |hash: i32, byte| (hash.wrapping_mul(31) + i32::from(byte)) & 0x3fff_ffff)
}

/// A name without separators and case: `podIP` and `pod_ip` are equal.
pub fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}
