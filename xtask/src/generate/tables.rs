//! The static tables of types.

use std::fmt::Write;

use super::names;
use crate::description::{Field, FieldType, GroupVersion, Type};

/// The table of a type.
pub fn write(out: &mut String, gv: &GroupVersion, ty: &Type) {
    let _ = writeln!(
        out,
        "\n/// The table of [`{}`].\npub static {}: TypeInfo = TypeInfo {{ name: \"{}.{}\", kind: {}, fields: &[",
        ty.name,
        names::constant(&ty.name),
        gv.package,
        ty.name,
        kind(ty)
    );
    for field in &ty.fields {
        let _ = writeln!(
            out,
            "FieldInfo {{ name: {:?}, ty: {}, flags: Flags({}), rules: {} }},",
            field.name,
            field_type(gv, &field.ty),
            flags(field),
            rules(field)
        );
    }
    let mut embedded = Vec::new();
    let numbers = numbers(
        ty,
        ty.fields.iter().enumerate().map(|(index, field)| (index, &field.numbers[..])).collect(),
        &mut embedded,
    );
    let union = ty.union.as_ref().map_or("None".into(), |(discriminator, members)| {
        let discriminator = if discriminator.is_empty() { "None".into() } else { format!("Some({discriminator:?})") };
        format!("Some(&Union {{ discriminator: {discriminator}, members: &{members:?} }})")
    });
    let _ = writeln!(
        out,
        "], numbers: {numbers}, embedded: &[{}], atomic: {}, union: {union} }};",
        embedded.join(", "),
        ty.atomic
    );
}

fn kind(ty: &Type) -> String {
    match &ty.kind {
        None => "None".into(),
        Some((group, version)) => {
            let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            format!(
                "Some(KindInfo {{ group: {group:?}, version: {version:?}, kind: {:?}, api_version: {api_version:?} }})",
                ty.name
            )
        }
    }
}

/// The fields by number; those of embedded structs in tables of their own.
fn numbers(ty: &Type, mut fields: Vec<(usize, &[u32])>, embedded: &mut Vec<String>) -> String {
    fields.sort_by_key(|(_, path)| path[0]);
    let mut entries = vec!["Number::NONE".into(); fields.last().map_or(0, |(_, path)| path[0] as usize + 1)];
    for chunk in fields.chunk_by(|a, b| a.1[0] == b.1[0]) {
        entries[chunk[0].1[0] as usize] = if let [(field, [_])] = chunk {
            format!("Number::field({field}, {})", wire_flags(&ty.fields[*field]))
        } else {
            let inner = numbers(ty, chunk.iter().map(|(index, path)| (*index, &path[1..])).collect(), embedded);
            embedded.push(inner);
            format!("Number::embedded({})", embedded.len() - 1)
        };
    }
    format!("&[{}]", entries.join(", "))
}

/// The flags for protobuf decoding.
fn wire_flags(field: &Field) -> String {
    let repeated = matches!(field.ty, FieldType::List(_) | FieldType::Map(_));
    join(&[
        (is_absent_if_zero(field), "ABSENT_IF_ZERO"),
        (field.unique, "UNIQUE"),
        (is_managed_fields(field), "MANAGED_FIELDS"),
        (repeated, "REPEATED"),
    ])
}

/// Whether Go writes the field even if it is unset.
pub fn is_absent_if_zero(field: &Field) -> bool {
    matches!(field.ty, FieldType::Scalar(_)) && !field.pointer && !field.required
}

pub fn is_managed_fields(field: &Field) -> bool {
    let FieldType::List(item) = &field.ty else { return false };
    matches!(&**item, FieldType::Message(_, _, name) if name == "ManagedFieldsEntry")
}

fn join(flags: &[(bool, &str)]) -> String {
    let names: Vec<String> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| format!("Flags::{name}")).collect();
    if names.is_empty() { "0".into() } else { names.join(" | ") }
}

fn field_type(gv: &GroupVersion, ty: &FieldType) -> String {
    match ty {
        FieldType::Scalar(scalar) => match scalar.as_str() {
            "bool" => "Type::Bool",
            "int32" => "Type::Int32",
            "int64" => "Type::Int64",
            "double" => "Type::Double",
            "bytes" => "Type::Bytes",
            "quantity" => "Type::Quantity",
            "int-or-string" => "Type::IntOrString",
            "time" => "Type::Time",
            "microtime" => "Type::MicroTime",
            "raw" => "Type::Raw",
            "schema-or-array" => "Type::SchemaOrArray",
            "schema-or-bool" => "Type::SchemaOrBool",
            "schema-or-strings" => "Type::SchemaOrStrings",
            _ => "Type::String",
        }
        .into(),
        FieldType::Message(module, version, name) => {
            let path = if *module == gv.module && *version == gv.version {
                String::new()
            } else {
                format!("{module}_{version}::")
            };
            format!("Type::Message(&{path}{})", names::constant(name))
        }
        FieldType::List(item) => format!("Type::List(&{})", field_type(gv, item)),
        FieldType::Map(item) => format!("Type::Map(&{})", field_type(gv, item)),
    }
}

fn flags(field: &Field) -> String {
    join(&[
        (field.required, "REQUIRED"),
        (field.pointer, "POINTER"),
        (field.always, "ALWAYS"),
        (field.secret, "SECRET"),
        (field.unique, "UNIQUE"),
        (field.typed, "TYPED"),
        (is_managed_fields(field), "MANAGED_FIELDS"),
        (field.omit_zero, "OMIT_ZERO"),
        (field.no_default, "NO_DEFAULT"),
    ])
}

fn rules(field: &Field) -> String {
    let mut set = Vec::new();
    match field.list.as_deref() {
        Some("atomic") => set.push("list: ListType::Atomic".into()),
        Some("set") => set.push("list: ListType::Set".into()),
        Some("map") => set.push(format!("list: ListType::Map(&{:?})", field.list_keys)),
        _ => {}
    }
    let mut add = |name: &str, items: &[String]| {
        if !items.is_empty() {
            set.push(format!("{name}: &{items:?}"));
        }
    };
    add("patch", &field.patch);
    add("values", &field.values);
    add("item_values", &field.item_values);
    if let Some(key) = &field.merge_key {
        set.push(format!("merge_key: Some({key:?})"));
    }
    if field.atomic_map {
        set.push("atomic_map: true".into());
    }
    if let Some(default) = &field.default {
        set.push(format!("default: Some({default:?})"));
    }
    if set.is_empty() { "&Rules::NONE".into() } else { format!("&Rules {{ {}, ..Rules::NONE }}", set.join(", ")) }
}
