//! Validates an applied configuration against its schema.

use std::collections::BTreeSet;
use std::fmt;

use super::field_set::Element;
use super::schema::MergeSchema;
use kubewright_core::Value;
use kubewright_core::quote::Quoted;
use kubewright_core::scheme::Type;

/// Limit on the total size of the error messages.
const MAX_PROBLEM_BYTES: usize = 1024 * 1024;

/// Schema violations of a configuration: one message per path, worded as kube-apiserver does.
pub fn check(value: &Value, schema: MergeSchema<'_>) -> Vec<String> {
    let mut problems = Problems::default();
    walk(value, schema, Path::Root, &mut problems);
    problems.messages
}

/// Messages up to about [`MAX_PROBLEM_BYTES`] in total: each one repeats the whole path.
#[derive(Default)]
struct Problems {
    messages: Vec<String>,
    bytes: usize,
}

impl Problems {
    fn push(&mut self, message: impl fmt::Display) {
        if self.bytes < MAX_PROBLEM_BYTES {
            let message = message.to_string();
            self.bytes += message.len();
            self.messages.push(message);
        }
    }
}

/// The path to a value. It is formatted only in messages: formatting it at every level would copy a
/// long key once for each field below it.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
    Item(&'a Path<'a>, &'a Element),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Item(parent, element) => write!(f, "{parent}{element}"),
        }
    }
}

fn walk(value: &Value, schema: MergeSchema<'_>, path: Path<'_>, problems: &mut Problems) {
    let mut complain = |message: String| problems.push(format_args!("{path}: {message}"));
    if value.is_null() {
        return;
    }
    if let Some(ty) = schema.scalar() {
        let fits = match (ty, value) {
            (Type::Bool, Value::Bool(_))
            | (Type::Int32 | Type::Int64 | Type::Double, Value::Int(_) | Value::Float(_)) => true,
            (Type::Quantity | Type::IntOrString, value) => !matches!(value, Value::Array(_) | Value::Object(_)),
            (Type::String | Type::Bytes | Type::Time | Type::MicroTime, Value::String(_)) => true,
            _ => false,
        };
        if !fits {
            complain(match ty {
                Type::Bool => format!("expected boolean, got &{{{}}}", plain(value)),
                Type::Int32 | Type::Int64 | Type::Double => {
                    format!("expected numeric (int or float), got {}", go_type(value))
                }
                Type::Quantity | Type::IntOrString => format!("expected any scalar, got &{{{}}}", plain(value)),
                _ => format!("expected string, got &value.valueUnstructured{{Value:{}}}", in_go(value)),
            });
        }
        return;
    }
    match value {
        Value::Object(entries) if !schema.is_list() => {
            for (key, value) in entries.iter() {
                // kube-apiserver does not descend either.
                let Some(inner) = schema.field(key) else {
                    return problems.push(format_args!("{path}.{key}: field not declared in schema"));
                };
                walk(value, inner, Path::Field(&path, key), problems);
            }
        }
        Value::Array(items) if !schema.is_map() => {
            // A leaf value may contain the same item twice.
            let is_leaf = schema.is_leaf(value);
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                if is_leaf {
                    walk(item, schema.item(), Path::Index(&path, index), problems);
                    continue;
                }
                let element = match schema.unrecognizable(item) {
                    Some(why) => Err(why.to_owned()),
                    None => schema.element(item),
                };
                match element {
                    // An item without keys cannot be validated, and the rest of the list is
                    // skipped.
                    Err(message) => return problems.push(format_args!("{path}: element {index}: {message}")),
                    Ok(element) => {
                        walk(item, schema.item(), Path::Item(&path, &element), problems);
                        if seen.contains(&element) {
                            problems.push(format_args!("{path}: duplicate entries for key {element}"));
                        } else {
                            seen.insert(element);
                        }
                    }
                }
            }
        }
        value if schema.is_list() => complain(format!("expected list, got &{{{}}}", plain(value))),
        value if schema.is_map() => complain(format!("expected map, got &{{{}}}", plain(value))),
        _ => {}
    }
}

/// The Go type name of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%v` prints it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(entries) => {
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as Go's `%#v` prints it.
fn in_go(value: &Value) -> String {
    match value {
        Value::String(text) => Quoted(text).to_string(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_go).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}:{}", Quoted(key), in_go(value))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        other => other.to_string(),
    }
}
