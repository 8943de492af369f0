//! Objects as JSON, YAML or names, as kubectl prints them.

use kubewright_client::discovery::RestMapping;
use kubewright_core::Value;
use kubewright_yaml as yaml;

use super::Output;

/// Spaces for each level of JSON.
const INDENT: usize = 4;

/// The objects of a response: the items of a list, or the one object.
///
/// Items of a list get their kind, which servers leave out.
pub fn objects(response: Value, mapping: &RestMapping) -> Vec<Value> {
    let Some(items) = response.get("items").and_then(Value::as_array) else { return vec![response] };
    let with_kind = |item: &Value| {
        let mut item = item.clone();
        if let Some(fields) = item.as_object_mut().filter(|fields| !fields.contains_key("kind")) {
            fields.insert("apiVersion", Value::from(mapping.resource.group_version().to_string()));
            fields.insert("kind", Value::from(mapping.kind.kind.as_str()));
        }
        item
    };
    items.iter().map(with_kind).collect()
}

/// The objects in a format other than a table. Without `is_single` they are in a `List`.
pub fn text(output: Option<Output>, mut objects: Vec<(&RestMapping, Value)>, is_single: bool) -> String {
    if output == Some(Output::Name) {
        return objects.iter().map(|(mapping, object)| format!("{}\n", type_and_name(mapping, object))).collect();
    }
    let value = if is_single && objects.len() == 1 { objects.remove(0).1 } else { list(objects) };
    if output == Some(Output::Yaml) { in_yaml(&value) } else { in_json(&value) }
}

/// YAML.
pub fn in_yaml(value: &Value) -> String {
    let mut text = String::new();
    yaml::write(value, &mut text);
    text
}

/// Indented JSON.
pub fn in_json(value: &Value) -> String {
    let mut text = String::new();
    indented(value, INDENT, &mut text);
    text.push('\n');
    text
}

/// An object in kubectl's notation: `pod/web`, `deployment.apps/web`.
pub fn type_and_name(mapping: &RestMapping, object: &Value) -> String {
    let name = object.get("metadata").and_then(|metadata| metadata.get("name")?.as_str());
    format!("{}/{}", type_name(mapping), name.unwrap_or_default())
}

/// The type in kubectl's notation: `pod`, `deployment.apps`.
pub fn type_name(mapping: &RestMapping) -> String {
    let kind = mapping.kind.kind.to_lowercase();
    if mapping.kind.group.is_empty() { kind } else { format!("{kind}.{}", mapping.kind.group) }
}

/// A `List` of objects.
fn list(objects: Vec<(&RestMapping, Value)>) -> Value {
    let items = objects.into_iter().map(|(_, object)| object);
    let metadata = Value::Object([("resourceVersion", Value::from(""))].into());
    let fields = [
        ("apiVersion", Value::from("v1")),
        ("items", Value::Array(items.collect())),
        ("kind", Value::from("List")),
        ("metadata", metadata),
    ];
    Value::Object(fields.into())
}

fn indented(value: &Value, level: usize, text: &mut String) {
    let (open, close, entries): (_, _, Vec<(Option<&str>, &Value)>) = match value {
        Value::Array(items) if !items.is_empty() => ('[', ']', items.iter().map(|item| (None, item)).collect()),
        Value::Object(fields) if !fields.is_empty() => {
            ('{', '}', fields.iter().map(|(key, value)| (Some(key.as_str()), value)).collect())
        }
        scalar => return text.push_str(&scalar.to_string()),
    };
    text.push(open);
    for (at, (key, entry)) in entries.into_iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        text.extend(std::iter::repeat_n(' ', level));
        if let Some(key) = key {
            text.push_str(&Value::from(key).to_string());
            text.push_str(": ");
        }
        indented(entry, level + INDENT, text);
    }
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', level - INDENT));
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_by_four_spaces() {
        let value = Value::from_json(br#"{"a":[{"b\"":1},[],{}],"c":null}"#).unwrap();
        let expected = "{\n    \"a\": [\n        {\n            \"b\\\"\": 1\n        },\n        [],\n        {}\n    ],\n    \"c\": null\n}\n";
        assert_eq!(in_json(&value), expected);
    }
}
