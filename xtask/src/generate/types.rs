//! Generates structs and the two functions that access their fields.
//!
//! All functions are `#[inline]`, here and in the macros of `message_impls`: a program
//! compiles only the functions of the types that it uses, with their lists and sub-objects.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{docs, names, tables};
use crate::description::{Field, FieldType, GroupVersion, Type};

/// The most frequent types in clusters. Protobuf decoding has specialised code for each of their
/// fields. Each additional type costs programs that use it 1 to 10 kB.
const OWN_LOOP: &[&str] = &[
    "Container",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStatus",
    "EnvVar",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "VolumeMount",
];

/// The `use` items of a file of types.
pub fn imports(gv: &GroupVersion) -> String {
    let core = if gv.module == "meta" { "crate" } else { "kubewright_core" };
    let mut out = format!("#[allow(unused_imports)]\nuse {core}::generated_support::*;\n");
    let mut modules = BTreeSet::new();
    for field in gv.types.iter().flat_map(|ty| &ty.fields) {
        collect(&field.ty, gv, &mut modules);
    }
    for (module, version) in modules {
        let path = if module == "meta" { "kubewright_core::meta".into() } else { format!("crate::{module}") };
        let _ = writeln!(out, "use {path}::{version} as {module}_{version};");
    }
    if gv.module == "apiextensions" {
        out.push_str("use crate::schema::*;\n");
    }
    out
}

fn collect(ty: &FieldType, gv: &GroupVersion, modules: &mut BTreeSet<(String, String)>) {
    match ty {
        FieldType::Message(module, version, _) if *module != gv.module || *version != gv.version => {
            modules.insert((module.clone(), version.clone()));
        }
        FieldType::List(item) | FieldType::Map(item) => collect(item, gv, modules),
        _ => {}
    }
}

/// The struct of a type, that of its rare fields, and their implementations.
pub fn write(out: &mut String, gv: &GroupVersion, ty: &Type) {
    let name = &ty.name;
    let has_rare = ty.fields.iter().any(|field| field.rare);
    let _ = writeln!(out, "\n/// {}", docs::rust(&ty.doc));
    if has_rare {
        let _ = writeln!(out, "///\n/// Dereferences to [`{name}Rare`], the fields that few objects set.");
    }
    let _ = writeln!(out, "#[derive(Clone, Default)]\npub struct {name} {{");
    for field in ty.fields.iter().filter(|field| !field.rare) {
        write_field(out, gv, field);
    }
    if has_rare {
        let _ = writeln!(out, "/// Fields that few objects set.\npub rare: Rare<{name}Rare>,");
    }
    out.push_str("}\n");
    if has_rare {
        let _ = writeln!(
            out,
            "\n/// Fields of [`{name}`] that few objects set.\n#[derive(Clone, Default)]\npub struct {name}Rare {{"
        );
        for field in ty.fields.iter().filter(|field| field.rare) {
            write_field(out, gv, field);
        }
        out.push_str("}\n");
        // All fields unset, as a constant: `Default` would generate code to drop each field.
        let unset = |field: &Field| match &field.ty {
            FieldType::List(_) => "List::new()",
            FieldType::Map(_) => "Map::new()",
            _ => "None",
        };
        let _ = writeln!(out, "rare_fields!({name}, {name}Rare {{");
        for field in ty.fields.iter().filter(|field| field.rare) {
            let _ = writeln!(out, "{}: {},", names::field(&field.name), unset(field));
        }
        out.push_str("});\n");
    }
    let _ = writeln!(
        out,
        "\nimpl Message for {name} {{\n#[inline]\nfn scheme(&self) -> &'static TypeInfo {{\n&{}\n}}",
        names::constant(name)
    );
    write_accessor(out, gv, ty, "#[inline]\nfn get(&self, field: usize) -> Ref<'_>", "Ref::Absent", get);
    let own_loop = OWN_LOOP.contains(&name.as_str());
    let inline = if own_loop { "#[inline(always)]" } else { "#[inline]" };
    let head = format!("{inline}\nfn slot(&mut self, field: usize) -> Slot<'_>");
    write_accessor(out, gv, ty, &head, "Slot::None", slot);
    if own_loop {
        write_own_loop(out, ty);
    }
    let _ = writeln!(out, "}}\nmessage_impls!({name});");
    if ty.kind.is_some() && metadata_is(ty, "ObjectMeta") {
        let _ = writeln!(out, "object_impls!({name}, {});", scope_of(gv, ty));
    }
}

/// The scope of a type's objects. Types without a resource, such as those of subresources, belong
/// to resources of both scopes.
fn scope_of(gv: &GroupVersion, ty: &Type) -> &'static str {
    match gv.resources.iter().find(|resource| resource.kind == ty.name) {
        Some(resource) if resource.namespaced => "Namespaced",
        Some(_) => "ClusterScoped",
        None => "RuntimeScope",
    }
}

/// The loop of a type that has its own; see `own_loop!`. Fields that few objects set have no code
/// there unless Go writes them as zero. (Managed fields are rare in memory only.)
fn write_own_loop(out: &mut String, ty: &Type) {
    let [mut values, mut integers, mut empty, mut zero] = [const { Vec::new() }; 4];
    for field in &ty.fields {
        let [number] = field.numbers[..] else { continue };
        let is_integer = matches!(shape(field), "Bool" | "OptBool" | "Int32" | "OptInt32" | "Int64" | "OptInt64");
        let is_time = matches!(&field.ty, FieldType::Scalar(scalar) if scalar.ends_with("time"));
        if field.rare && !tables::is_managed_fields(field) {
            if tables::is_absent_if_zero(field) {
                if is_integer { &mut zero } else { &mut empty }.push(number);
            }
        } else if is_integer {
            integers.push(number);
        } else if is_time || shape(field) != "Scalar" {
            values.push(number);
        }
    }
    let table = names::constant(&ty.name);
    let _ = writeln!(out, "own_loop!({table}, {values:?}, {integers:?}, {empty:?}, {zero:?});");
}

/// All types of a file, each with a constructor of an empty value.
pub fn write_list(out: &mut String, gv: &GroupVersion) {
    // Only servers and tests need all types.
    out.push_str("\n/// All types of this version of the group.\n#[cfg(feature = \"registry\")]\n");
    out.push_str("pub static TYPES: &[&TypeEntry] = &[\n");
    for ty in &gv.types {
        let _ = writeln!(
            out,
            "&TypeEntry {{ info: &{}, new: || Box::<{}>::default(), doc: {:?}, field_docs: &{:?} }},",
            names::constant(&ty.name),
            ty.name,
            ty.doc,
            ty.fields.iter().map(|field| &field.doc).collect::<Vec<_>>()
        );
    }
    out.push_str("];\n");
}

pub fn metadata_is(ty: &Type, wanted: &str) -> bool {
    let is = |field: &&Field| matches!(&field.ty, FieldType::Message(_, _, name) if name == wanted);
    ty.fields.iter().find(|field| field.name == "metadata").as_ref().is_some_and(is)
}

fn write_field(out: &mut String, gv: &GroupVersion, field: &Field) {
    docs::write_field(out, field);
    let _ = writeln!(out, "pub {}: {},", names::field(&field.name), rust_type(gv, field));
}

fn write_accessor(
    out: &mut String,
    gv: &GroupVersion,
    ty: &Type,
    signature: &str,
    none: &str,
    arm: fn(&GroupVersion, &Field) -> String,
) {
    if ty.fields.is_empty() {
        let _ = writeln!(out, "{} {{\n{none}\n}}", signature.replace("field:", "_:"));
        return;
    }
    let _ = writeln!(out, "{signature} {{\nmatch field {{");
    for (index, field) in ty.fields.iter().enumerate() {
        let _ = writeln!(out, "{index} => {},", arm(gv, field));
    }
    let _ = writeln!(out, "_ => {none},\n}}\n}}");
}

/// The variant of `Ref` and `Slot` of a field.
fn shape(field: &Field) -> &'static str {
    match &field.ty {
        FieldType::Scalar(scalar) => match (scalar.as_str(), field.required) {
            ("bool", true) => "Bool",
            ("bool", false) => "OptBool",
            ("int32", true) => "Int32",
            ("int32", false) => "OptInt32",
            ("int64", true) => "Int64",
            ("int64", false) => "OptInt64",
            ("string", true) => "Str",
            ("string", false) => "OptStr",
            _ => "Scalar",
        },
        FieldType::Message(..) if is_plain_message(field) => "Message",
        FieldType::Message(..) if is_inline(field) => "OptMessage",
        FieldType::Message(..) => "OptShared",
        FieldType::List(item) => match &**item {
            FieldType::Scalar(scalar) if scalar == "string" => "Strs",
            FieldType::Message(..) => "Messages",
            _ => "Scalar",
        },
        FieldType::Map(item) => match &**item {
            FieldType::Scalar(scalar) if scalar == "string" => "StrMap",
            FieldType::Message(..) => "MessageMap",
            _ => "Scalar",
        },
    }
}

/// Metadata is part of every object, so it needs no `Option`; neither does what is required.
fn is_plain_message(field: &Field) -> bool {
    let metadata = matches!(&field.ty, FieldType::Message(_, _, name) if name == "ObjectMeta" || name == "ListMeta");
    field.required || metadata
}

/// Nearly all objects have a specification and a status; boxing them would cost an allocation and
/// save nothing.
fn is_inline(field: &Field) -> bool {
    field.inline || field.name == "spec" || field.name == "status"
}

fn get(_: &GroupVersion, field: &Field) -> String {
    let name = names::field(&field.name);
    let value = |this: &str| match shape(field) {
        "Bool" => format!("Ref::Bool({this}.{name})"),
        "Int32" => format!("Ref::Int({this}.{name}.into())"),
        "Int64" => format!("Ref::Int({this}.{name})"),
        "Str" => format!("Ref::Str(&{this}.{name})"),
        "Message" => format!("Ref::Message(&{this}.{name})"),
        shape @ ("OptBool" | "OptInt32" | "OptInt64") => format!("refs::{}({this}.{name})", snake_shape(shape)),
        shape => format!("refs::{}(&{this}.{name})", snake_shape(shape)),
    };
    if field.rare { value("self.rare") } else { value("self") }
}

fn snake_shape(shape: &str) -> &'static str {
    match shape {
        "OptBool" => "opt_bool",
        "OptInt32" => "opt_int32",
        "OptInt64" => "opt_int64",
        "OptStr" => "opt_str",
        "Strs" => "strs",
        "StrMap" => "str_map",
        "OptMessage" => "opt_message",
        "OptShared" => "opt_shared",
        "Messages" => "messages",
        "MessageMap" => "message_map",
        _ => "scalar",
    }
}

fn slot(_: &GroupVersion, field: &Field) -> String {
    let place = format!("{}.{}", if field.rare { "self.rare" } else { "self" }, names::field(&field.name));
    match shape(field) {
        "OptMessage" => format!("Slot::Message({place}.get_or_insert_default())"),
        "OptShared" => format!("Slot::Shared(&mut {place})"),
        shape => format!("Slot::{shape}(&mut {place})"),
    }
}

/// The type of a field in Rust.
fn rust_type(gv: &GroupVersion, field: &Field) -> String {
    let base = base_type(gv, &field.ty);
    match &field.ty {
        FieldType::List(_) | FieldType::Map(_) => base,
        FieldType::Message(..) if is_plain_message(field) => base,
        FieldType::Message(..) if is_inline(field) => format!("Option<{base}>"),
        FieldType::Message(..) => format!("Option<Shared<{base}>>"),
        // A time that is required may still be unset, which is null.
        FieldType::Scalar(scalar) if field.required && !scalar.ends_with("time") => base,
        FieldType::Scalar(_) => format!("Option<{base}>"),
    }
}

pub fn base_type(gv: &GroupVersion, ty: &FieldType) -> String {
    match ty {
        FieldType::Scalar(scalar) => match scalar.as_str() {
            "bool" => "bool",
            "int32" => "i32",
            "int64" => "i64",
            "double" => "f64",
            "bytes" => "ByteString",
            "quantity" => "Quantity",
            "int-or-string" => "IntOrString",
            "time" => "Time",
            "microtime" => "MicroTime",
            "raw" => "RawJson",
            "schema-or-array" => "JSONSchemaPropsOrArray",
            "schema-or-bool" => "JSONSchemaPropsOrBool",
            "schema-or-strings" => "JSONSchemaPropsOrStringArray",
            _ => "Str",
        }
        .into(),
        FieldType::Message(module, version, name) if *module == gv.module && *version == gv.version => name.clone(),
        FieldType::Message(module, version, name) => format!("{module}_{version}::{name}"),
        FieldType::List(item) => format!("List<{}>", base_type(gv, item)),
        FieldType::Map(item) => format!("Map<{}>", base_type(gv, item)),
    }
}
