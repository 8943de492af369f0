//! The OpenAPI schema of a type.

use kubewright_core::message::TypeEntry;
use kubewright_core::scheme::{FieldInfo, Flags, ListType, Rules, Type, TypeInfo};
use kubewright_core::{GroupVersion, GroupVersionKind, Map, Str, Value, tree};
use kubewright_schema::openapi::{META_PACKAGE as META, kind_extension, reference};

/// Descriptions of the fields that all objects have.
const API_VERSION_DOC: &str = "APIVersion defines the group and version of the object's schema, such as apps/v1.";
const KIND_DOC: &str = "Kind is the name of the object's type, such as Deployment.";

/// The package of the types that describe custom resources.
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The schema of a type, in the document of a group version.
pub(super) fn type_schema(entry: &TypeEntry, version: &GroupVersion) -> Value {
    let info = entry.info;
    let mut properties = Map::new();
    for (field, doc) in info.fields.iter().zip(entry.field_docs) {
        let mut schema = field_schema(info, field);
        describe(&mut schema, doc);
        properties.insert(Str::from_static(field.name), schema);
    }
    if info.kind.is_some() {
        properties.insert("apiVersion", described("string", API_VERSION_DOC));
        properties.insert("kind", described("string", KIND_DOC));
    }
    let mut schema = tree::map([("type", Value::from("object"))]);
    describe(&mut schema, entry.doc);
    if !properties.is_empty() {
        tree::set(&mut schema, &["properties"], properties);
    }
    let required: Vec<&str> =
        info.fields.iter().filter(|field| field.flags.has(Flags::REQUIRED)).map(|field| field.name).collect();
    if !required.is_empty() {
        tree::set(&mut schema, &["required"], tree::list(required));
    }
    if info.atomic {
        tree::set(&mut schema, &["x-kubernetes-map-type"], "atomic");
    }
    if let Some(union) = info.union {
        let mut extension = Map::new();
        if let Some(discriminator) = union.discriminator {
            extension.insert("discriminator", Value::from(discriminator));
        }
        let members: Map<Value> = union.members.iter().map(|(field, name)| (*field, Value::from(*name))).collect();
        extension.insert("fields-to-discriminateBy", members.into());
        tree::set(&mut schema, &["x-kubernetes-unions"], tree::array([extension.into()]));
    }
    let kinds = kinds_of(info, version);
    if !kinds.is_empty() {
        tree::set(&mut schema, &["x-kubernetes-group-version-kind"], tree::array(kinds.iter().map(kind_extension)));
    }
    schema
}

fn describe(schema: &mut Value, doc: &'static str) {
    if !doc.is_empty() {
        tree::set(schema, &["description"], Str::from_static(doc));
    }
}

/// A schema of a scalar with a description.
fn described(ty: &'static str, doc: &'static str) -> Value {
    tree::map([("type", Value::from(ty)), ("description", Str::from_static(doc).into())])
}

/// The kinds of a type. Two meta types are a kind in every group.
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

/// The schema of a list kind.
pub(super) fn list_schema(item: &str, kind: &GroupVersionKind) -> Value {
    let mut metadata = by_value(&format!("{META}.ListMeta"));
    describe(&mut metadata, "Resource version and continuation of the list.");
    let mut items = tree::map([("type", Value::from("array")), ("items", by_value(item))]);
    let item = item.rsplit('.').next().unwrap_or(item);
    tree::set(&mut items, &["description"], format!("List of {}.", plural(item)));
    tree::map([
        ("type", Value::from("object")),
        ("description", format!("A list of {item} objects.").into()),
        ("required", tree::list(["items"])),
        (
            "properties",
            tree::map([
                ("apiVersion", described("string", API_VERSION_DOC)),
                ("kind", described("string", KIND_DOC)),
                ("metadata", metadata),
                ("items", items),
            ]),
        ),
        ("x-kubernetes-group-version-kind", tree::array([kind_extension(kind)])),
    ])
}

/// The plural of a kind, in a description.
fn plural(kind: &str) -> String {
    let name = kind.to_ascii_lowercase();
    match name.as_bytes() {
        _ if name == "endpoints" => name,
        [.., b's' | b'x'] => format!("{name}es"),
        [.., before, b'y'] if !b"aeiou".contains(before) => format!("{}ies", &name[..name.len() - 1]),
        _ => format!("{name}s"),
    }
}

/// The schema of a scalar type, if it is one.
pub(super) fn scalar_schema(name: &str) -> Option<Value> {
    let typed = |ty| tree::map([("type", Value::from(ty))]);
    let one_of = |types: [&'static str; 2]| ("oneOf", tree::array(types.map(typed)));
    let (mut schema, doc) = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => (
            tree::map([one_of(["string", "number"])]),
            "An amount of a resource: a number with an optional suffix, such as 500m, 2, 128Mi or 1G.",
        ),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => (
            tree::map([("format", Value::from("int-or-string")), one_of(["integer", "string"])]),
            "An integer or a string, such as a port or its name, a number or a percentage.",
        ),
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => (typed("object"), "Any JSON object."),
        _ if name.starts_with(META) => match &name[META.len()..] {
            ".Time" => (date_time(), "A time as RFC 3339 writes it, in seconds."),
            ".MicroTime" => (date_time(), "A time as RFC 3339 writes it, in microseconds."),
            ".FieldsV1" => (typed("object"), "A set of fields, as a tree of their paths."),
            ".Patch" => (typed("object"), "A patch, in the format that its content type names."),
            _ => return None,
        },
        _ if name.starts_with(EXTENSIONS) => match &name[EXTENSIONS.len()..] {
            ".JSON" => (tree::map([]), "Any JSON value."),
            ".JSONSchemaPropsOrArray" => (tree::map([]), "A schema, or a list of schemas."),
            ".JSONSchemaPropsOrBool" => (tree::map([]), "A schema, or a boolean: true allows any value, false none."),
            ".JSONSchemaPropsOrStringArray" => (tree::map([]), "A schema, or a list of names of properties."),
            _ => return None,
        },
        _ => return None,
    };
    describe(&mut schema, doc);
    Some(schema)
}

fn date_time() -> Value {
    tree::map([("type", Value::from("string")), ("format", Value::from("date-time"))])
}

fn field_schema(parent: &TypeInfo, field: &FieldInfo) -> Value {
    let FieldInfo { ty, flags, rules, .. } = field;
    let pointer = flags.has(Flags::POINTER);
    // Go's generator publishes the zero value of fields that are held by value and always encoded.
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
    let mut schema = value_schema(parent, field.name, ty, rules, bare);
    if let Some(default) = default {
        tree::set(&mut schema, &["default"], default);
    }
    add_rules(&mut schema, rules);
    if GRANULAR.contains(&(parent.name, field.name)) {
        tree::set(&mut schema, &["x-kubernetes-map-type"], "granular");
    }
    schema
}

/// Fields that are granular, although their types are atomic elsewhere.
const GRANULAR: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef"),
];

/// Whether Kubernetes itself publishes a description of a field. It wraps a reference that has
/// anything beside it. Clients compare schemas, so ours has the same form.
fn is_described(parent: &str, field: &str) -> bool {
    match parent.strip_prefix(EXTENSIONS) {
        Some(".JSONSchemaProps") => field == "default",
        _ => (parent, field) != ("io.k8s.api.networking.v1.IngressRule", "http"),
    }
}

fn add_rules(schema: &mut Value, rules: &Rules) {
    if !rules.values.is_empty() {
        tree::set(schema, &["enum"], tree::list(rules.values));
    }
    match rules.list {
        ListType::Unset => {}
        ListType::Atomic => tree::set(schema, &["x-kubernetes-list-type"], "atomic"),
        ListType::Set => tree::set(schema, &["x-kubernetes-list-type"], "set"),
        ListType::Map(keys) => {
            tree::set(schema, &["x-kubernetes-list-type"], "map");
            tree::set(schema, &["x-kubernetes-list-map-keys"], tree::list(keys));
        }
    }
    if rules.atomic_map {
        tree::set(schema, &["x-kubernetes-map-type"], "atomic");
    }
    if !rules.patch.is_empty() {
        tree::set(schema, &["x-kubernetes-patch-strategy"], rules.patch.join(","));
    }
    if let Some(key) = rules.merge_key {
        tree::set(schema, &["x-kubernetes-patch-merge-key"], Value::from(key));
    }
}

fn value_schema(parent: &TypeInfo, field: &str, ty: &Type, rules: &Rules, bare: bool) -> Value {
    let typed = |ty: &'static str| tree::map([("type", Value::from(ty))]);
    let formatted = |ty: &'static str, format: &'static str| {
        tree::map([("type", Value::from(ty)), ("format", Value::from(format))])
    };
    match ty {
        Type::Bool => typed("boolean"),
        Type::Int32 => formatted("integer", "int32"),
        Type::Int64 => formatted("integer", "int64"),
        Type::Double => formatted("number", "double"),
        Type::String => typed("string"),
        Type::Bytes => formatted("string", "byte"),
        Type::List(item) => {
            tree::map([("type", Value::from("array")), ("items", item_schema(parent, field, item, rules.item_values))])
        }
        Type::Map(item) => tree::map([
            ("type", Value::from("object")),
            ("additionalProperties", item_schema(parent, field, item, rules.item_values)),
        ]),
        other => {
            let reference = reference(&name_of(parent, field, other));
            if bare { reference } else { tree::map([("allOf", tree::array([reference]))]) }
        }
    }
}

/// The schema of a list or map item with its default. Without a default it is a plain reference.
fn item_schema(parent: &TypeInfo, field: &str, ty: &Type, values: &'static [&'static str]) -> Value {
    let mut schema = value_schema(parent, field, ty, &Rules::NONE, !matches!(ty, Type::Message(_)));
    if let Some(default) = zero(ty) {
        tree::set(&mut schema, &["default"], default);
    }
    if !values.is_empty() {
        tree::set(&mut schema, &["enum"], tree::list(values));
    }
    schema
}

/// The schema name of a referenced type.
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

/// The default of a type that Go holds by value.
fn zero(ty: &Type) -> Option<Value> {
    match ty {
        Type::Bool => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
        Type::String => Some(Value::from("")),
        Type::Message(_) => Some(tree::map([])),
        _ => None,
    }
}

/// A reference to a type held by value.
fn by_value(name: &str) -> Value {
    tree::map([("default", tree::map([])), ("allOf", tree::array([reference(name)]))])
}
