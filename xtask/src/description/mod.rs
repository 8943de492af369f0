//! The parsed API description from the files in `api/`.
//!
//! The format is explained in `api/README.md`.

mod parser;

#[cfg(test)]
pub use parser::parse;

use std::path::Path;
use std::{fs, io};

/// One file: a version of a group.
#[derive(Debug)]
pub struct GroupVersion {
    /// The name in modules and features, such as `core` or `rbac`.
    pub module: String,
    /// The Kubernetes name of the group; empty for core.
    pub group: String,
    pub version: String,
    /// The prefix of its type names in OpenAPI.
    pub package: String,
    pub resources: Vec<Resource>,
    pub types: Vec<Type>,
}

#[derive(Debug)]
pub struct Resource {
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    pub columns: Vec<Column>,
}

#[derive(Debug)]
pub struct Subresource {
    pub name: String,
    /// Group, version and kind where they differ from the parent's: `autoscaling/v1/Scale`.
    pub kind: String,
    pub verbs: Vec<String>,
}

#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub ty: String,
    pub format: String,
    pub priority: u32,
}

#[derive(Debug)]
pub struct Type {
    /// The sentence above it in the file, which rustdoc and OpenAPI show.
    pub doc: String,
    pub name: String,
    /// Group and version of a type that is an object of its own.
    pub kind: Option<(String, String)>,
    pub atomic: bool,
    /// Discriminator (may be empty) and members.
    pub union: Option<(String, Vec<(String, String)>)>,
    pub fields: Vec<Field>,
}

#[derive(Debug)]
pub struct Field {
    /// The sentence above it in the file, which rustdoc and OpenAPI show.
    pub doc: String,
    pub name: String,
    /// Protobuf numbers from the outside in; more than one for fields of embedded structs.
    pub numbers: Vec<u32>,
    pub ty: FieldType,
    pub required: bool,
    pub pointer: bool,
    pub always: bool,
    pub omit_zero: bool,
    pub no_default: bool,
    pub secret: bool,
    pub unique: bool,
    pub typed: bool,
    pub rare: bool,
    pub inline: bool,
    pub list: Option<String>,
    pub list_keys: Vec<String>,
    pub patch: Vec<String>,
    pub merge_key: Option<String>,
    pub atomic_map: bool,
    pub values: Vec<String>,
    pub item_values: Vec<String>,
    pub default: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FieldType {
    /// A scalar, by its name in the description.
    Scalar(String),
    /// Module, version and name of a type.
    Message(String, String, String),
    List(Box<FieldType>),
    Map(Box<FieldType>),
}

/// Reads all files of `folder`, sorted by name.
pub fn read(folder: &Path) -> Result<Vec<GroupVersion>, String> {
    let io = |error: io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "api") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<GroupVersion, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let module = stem.split('.').next().unwrap_or_default();
    parser::parse(module, &text).map_err(|(line, problem)| format!("{}:{line}: {problem}", path.display()))
}
