//! The schema of a type, from its table.

use kubewright_core::scheme::{FieldInfo, Flags, ListType, Rules, Type, TypeInfo};
use kubewright_core::{GroupVersion, GroupVersionKind, Map, Str, Value};

use super::names::{META, extension, reference};
use crate::tree::{array, object, set, texts, word};

/// The package of the types that describe custom resources.
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The schema of a type, in the document of a version of a group.
pub(super) fn of_type(info: &TypeInfo, version: &GroupVersion) -> Value {
    let mut properties: Map<Value> =
        info.fields.iter().map(|field| (Str::from_static(field.name), of_field(info, field))).collect();
    if info.kind.is_some() {
        properties.insert("apiVersion", object([("type", word("string"))]));
        properties.insert("kind", object([("type", word("string"))]));
    }
    let mut schema = object([("type", word("object"))]);
    if !properties.is_empty() {
        set(&mut schema, "properties", properties.into());
    }
    let required: Vec<&str> =
        info.fields.iter().filter(|field| field.flags.has(Flags::REQUIRED)).map(|field| field.name).collect();
    if !required.is_empty() {
        set(&mut schema, "required", texts(required));
    }
    if info.atomic {
        set(&mut schema, "x-kubernetes-map-type", word("atomic"));
    }
    if let Some(union) = info.union {
        let mut extension = Map::new();
        if let Some(discriminator) = union.discriminator {
            extension.insert("discriminator", word(discriminator));
        }
        let members: Map<Value> = union.members.iter().map(|(field, name)| (*field, word(name))).collect();
        extension.insert("fields-to-discriminateBy", members.into());
        set(&mut schema, "x-kubernetes-unions", array([extension.into()]));
    }
    let kinds = kinds_of(info, version);
    if !kinds.is_empty() {
        set(&mut schema, "x-kubernetes-group-version-kind", array(kinds.iter().map(extension)));
    }
    schema
}

/// The kinds that a type stands for. Two types of all groups stand for a kind in each.
fn kinds_of(info: &TypeInfo, version: &GroupVersion) -> Vec<GroupVersionKind> {
    let everywhere = match info.name.strip_prefix(META) {
        Some(".DeleteOptions") => Some("DeleteOptions"),
        Some(".WatchEvent") => Some("WatchEvent"),
        _ => None,
    };
    match (everywhere, &info.kind) {
        (Some(kind), _) => {
            let mut kinds = vec![GroupVersionKind::from_static("", "v1", kind), version.with_kind(kind)];
            kinds.dedup();
            kinds
        }
        (None, Some(kind)) => vec![GroupVersionKind::from(kind)],
        (None, None) => Vec::new(),
    }
}

/// The schema of the list of a kind.
pub(super) fn of_list(item: &str, kind: &GroupVersionKind) -> Value {
    object([
        ("type", word("object")),
        ("required", texts(["items"])),
        (
            "properties",
            object([
                ("apiVersion", object([("type", word("string"))])),
                ("kind", object([("type", word("string"))])),
                ("metadata", by_value(&format!("{META}.ListMeta"))),
                ("items", object([("type", word("array")), ("items", by_value(item))])),
            ]),
        ),
        ("x-kubernetes-group-version-kind", array([extension(kind)])),
    ])
}

/// The schema of a type that is no object, if it is one of those.
pub(super) fn of_scalar(name: &str) -> Option<Value> {
    let typed = |ty| object([("type", word(ty))]);
    let one_of = |types: [&'static str; 2]| ("oneOf", array(types.map(typed)));
    Some(match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => object([one_of(["string", "number"])]),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            object([("format", word("int-or-string")), one_of(["integer", "string"])])
        }
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => typed("object"),
        _ if name.starts_with(META) => match &name[META.len()..] {
            ".Time" | ".MicroTime" => object([("type", word("string")), ("format", word("date-time"))]),
            ".FieldsV1" | ".Patch" => typed("object"),
            _ => return None,
        },
        _ if name.starts_with(EXTENSIONS) => match &name[EXTENSIONS.len()..] {
            ".JSON" | ".JSONSchemaPropsOrArray" | ".JSONSchemaPropsOrBool" | ".JSONSchemaPropsOrStringArray" => {
                object([])
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn of_field(parent: &TypeInfo, field: &FieldInfo) -> Value {
    let FieldInfo { ty, flags, rules, .. } = field;
    let pointer = flags.has(Flags::POINTER);
    // Go publishes the zero value of what it holds by value and always writes.
    let written = flags.has(Flags::REQUIRED | Flags::ALWAYS) && !flags.has(Flags::OMIT_ZERO);
    let has_default = match ty {
        Type::Message(_) => !pointer,
        Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::String => written && !pointer,
        _ => false,
    };
    let default = match rules.default {
        Some(json) => Some(json.parse().expect("defaults are JSON")),
        None => (has_default && !flags.has(Flags::NO_DEFAULT)).then(|| zero(ty)).flatten(),
    };
    let bare = default.is_none() && !is_described(parent.name, field.name);
    let mut schema = of_value(parent, field.name, ty, rules, bare);
    if let Some(default) = default {
        set(&mut schema, "default", default);
    }
    add_rules(&mut schema, rules);
    if GRANULAR.contains(&(parent.name, field.name)) {
        set(&mut schema, "x-kubernetes-map-type", word("granular"));
    }
    schema
}

/// Fields that are applied part by part, although their types are one value elsewhere.
const GRANULAR: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef"),
];

/// Whether the server has a description of a field. It wraps a reference that has anything beside it.
fn is_described(parent: &str, field: &str) -> bool {
    match parent.strip_prefix(EXTENSIONS) {
        Some(".JSONSchemaProps") => field == "default",
        _ => (parent, field) != ("io.k8s.api.networking.v1.IngressRule", "http"),
    }
}

fn add_rules(schema: &mut Value, rules: &Rules) {
    if !rules.values.is_empty() {
        set(schema, "enum", texts(rules.values));
    }
    match rules.list {
        ListType::Unset => {}
        ListType::Atomic => set(schema, "x-kubernetes-list-type", word("atomic")),
        ListType::Set => set(schema, "x-kubernetes-list-type", word("set")),
        ListType::Map(keys) => {
            set(schema, "x-kubernetes-list-type", word("map"));
            set(schema, "x-kubernetes-list-map-keys", texts(keys));
        }
    }
    if rules.atomic_map {
        set(schema, "x-kubernetes-map-type", word("atomic"));
    }
    if !rules.patch.is_empty() {
        set(schema, "x-kubernetes-patch-strategy", rules.patch.join(",").into());
    }
    if let Some(key) = rules.merge_key {
        set(schema, "x-kubernetes-patch-merge-key", word(key));
    }
}

fn of_value(parent: &TypeInfo, field: &str, ty: &Type, rules: &Rules, bare: bool) -> Value {
    let typed = |ty: &'static str| object([("type", word(ty))]);
    let formatted = |ty: &'static str, format: &'static str| object([("type", word(ty)), ("format", word(format))]);
    match ty {
        Type::Bool => typed("boolean"),
        Type::Int32 => formatted("integer", "int32"),
        Type::Int64 => formatted("integer", "int64"),
        Type::Double => formatted("number", "double"),
        Type::String => typed("string"),
        Type::Bytes => formatted("string", "byte"),
        Type::List(item) => {
            object([("type", word("array")), ("items", of_item(parent, field, item, rules.item_values))])
        }
        Type::Map(item) => object([
            ("type", word("object")),
            ("additionalProperties", of_item(parent, field, item, rules.item_values)),
        ]),
        other => {
            let reference = reference(&name_of(parent, field, other));
            if bare { reference } else { object([("allOf", array([reference]))]) }
        }
    }
}

/// The schema of what a list or a map holds, with its default; what has none is a bare reference.
fn of_item(parent: &TypeInfo, field: &str, ty: &Type, values: &'static [&'static str]) -> Value {
    let mut schema = of_value(parent, field, ty, &Rules::NONE, !matches!(ty, Type::Message(_)));
    if let Some(default) = zero(ty) {
        set(&mut schema, "default", default);
    }
    if !values.is_empty() {
        set(&mut schema, "enum", texts(values));
    }
    schema
}

/// The name of the schema of a type that is referred to.
fn name_of(parent: &TypeInfo, field: &str, ty: &Type) -> String {
    match ty {
        Type::Message(info) => info.name.to_owned(),
        Type::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
        Type::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
        Type::Time => format!("{META}.Time"),
        Type::MicroTime => format!("{META}.MicroTime"),
        Type::SchemaOrArray => format!("{EXTENSIONS}.JSONSchemaPropsOrArray"),
        Type::SchemaOrBool => format!("{EXTENSIONS}.JSONSchemaPropsOrBool"),
        Type::SchemaOrStrings => format!("{EXTENSIONS}.JSONSchemaPropsOrStringArray"),
        _ if field == "fieldsV1" => format!("{META}.FieldsV1"),
        _ if parent.name.starts_with(EXTENSIONS) => format!("{EXTENSIONS}.JSON"),
        _ => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
    }
}

/// The default of what Go holds by value.
fn zero(ty: &Type) -> Option<Value> {
    match ty {
        Type::Bool => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
        Type::String => Some(word("")),
        Type::Message(_) => Some(object([])),
        _ => None,
    }
}

/// A reference to a type that is held by value.
fn by_value(name: &str) -> Value {
    object([("default", object([])), ("allOf", array([reference(name)]))])
}
