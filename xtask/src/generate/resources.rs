//! The resource table: what discovery serves and clients address.

use std::fmt::Write;

use super::{names, types};
use crate::description::{GroupVersion, Resource, Subresource};

/// The resources of a version of a group, and which types are objects of them.
pub fn write(out: &mut String, gv: &GroupVersion) {
    if gv.module == "meta" {
        return;
    }
    let mut all = Vec::new();
    for resource in &gv.resources {
        let constant = format!("{}_RESOURCE", names::constant(&resource.plural));
        write_resource(out, gv, resource, &constant);
        let object = gv.types.iter().find(|ty| ty.name == resource.kind);
        if object.is_some_and(|ty| types::metadata_is(ty, "ObjectMeta")) {
            let _ = writeln!(out, "kind_impls!({}, {constant});", resource.kind);
        }
        all.push(format!("&{constant}"));
    }
    let _ = writeln!(
        out,
        "\n/// All resources of this version of the group.\npub static RESOURCES: &[&ResourceInfo] = &[{}];",
        all.join(", ")
    );
}

fn write_resource(out: &mut String, gv: &GroupVersion, resource: &Resource, constant: &str) {
    let api_version = if gv.group.is_empty() { gv.version.clone() } else { format!("{}/{}", gv.group, gv.version) };
    let _ = writeln!(
        out,
        "\n/// The resource `{}`.\npub static {constant}: ResourceInfo = ResourceInfo {{\n\
         kind: KindInfo {{ group: {:?}, version: {:?}, kind: {:?}, api_version: {api_version:?} }},\n\
         plural: {:?}, singular: {:?}, short_names: &{:?}, categories: &{:?}, namespaced: {}, verbs: &{:?},\n\
         subresources: &[",
        resource.plural,
        gv.group,
        gv.version,
        resource.kind,
        resource.plural,
        resource.singular,
        resource.short_names,
        resource.categories,
        resource.namespaced,
        resource.verbs
    );
    for subresource in &resource.subresources {
        write_subresource(out, gv, subresource);
    }
    out.push_str("], columns: &[");
    for column in &resource.columns {
        let _ = writeln!(
            out,
            "ColumnInfo {{ name: {:?}, ty: {:?}, format: {:?}, priority: {} }},",
            column.name, column.ty, column.format, column.priority
        );
    }
    out.push_str("] };\n");
}

fn write_subresource(out: &mut String, gv: &GroupVersion, subresource: &Subresource) {
    let parts: Vec<&str> = subresource.kind.split('/').collect();
    let (group, version, kind) = match parts[..] {
        [group, version, kind] => (group, version, kind),
        _ => (gv.group.as_str(), gv.version.as_str(), subresource.kind.as_str()),
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let _ = writeln!(
        out,
        "SubresourceInfo {{ name: {:?}, kind: KindInfo {{ group: {group:?}, version: {version:?}, kind: {kind:?}, \
         api_version: {api_version:?} }}, verbs: &{:?} }},",
        subresource.name, subresource.verbs
    );
}
