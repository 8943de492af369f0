//! The description of the API as the generator sees it, read from the files in `api/`.
//!
//! The format is explained in `api/README.md`.

use std::path::Path;
use std::{fs, io};

/// One file: a version of a group.
#[derive(Debug)]
pub struct GroupVersion {
    /// The word that modules and features use, such as `core` or `rbac`.
    pub module: String,
    /// The group as Kubernetes writes it; empty for core.
    pub group: String,
    pub version: String,
    /// What names of its types begin with in OpenAPI.
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
    /// A scalar, by its word in the description.
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
    let mut parsed = GroupVersion {
        module: module.to_owned(),
        group: String::new(),
        version: String::new(),
        package: String::new(),
        resources: Vec::new(),
        types: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        read_line(&mut parsed, line.starts_with(' '), &words)
            .ok_or_else(|| format!("{}:{}: cannot read this line: {line}", path.display(), index + 1))?;
    }
    Ok(parsed)
}

fn read_line(file: &mut GroupVersion, inner: bool, words: &[&str]) -> Option<()> {
    match (inner, words) {
        (_, []) => {}
        (_, [word, ..]) if word.starts_with('#') => {}
        (false, ["group", group, "version", version, "package", package]) => {
            file.group = group.to_string();
            file.version = version.to_string();
            file.package = package.to_string();
        }
        (false, ["resource", plural, kind, scope, rest @ ..]) => file.resources.push(Resource {
            plural: plural.to_string(),
            kind: kind.to_string(),
            namespaced: *scope == "namespaced",
            singular: option(rest, "singular")?.to_owned(),
            short_names: list(option(rest, "short")),
            categories: list(option(rest, "categories")),
            verbs: list(option(rest, "verbs")),
            subresources: Vec::new(),
            columns: Vec::new(),
        }),
        (true, ["sub", name, kind, rest @ ..]) if file.types.is_empty() => {
            file.resources.last_mut()?.subresources.push(Subresource {
                name: name.to_string(),
                kind: kind.to_string(),
                verbs: list(option(rest, "verbs")),
            });
        }
        (true, ["column", name, ty, format, priority]) if file.types.is_empty() => {
            file.resources.last_mut()?.columns.push(Column {
                name: name.to_string(),
                ty: ty.to_string(),
                format: format.trim_matches('-').to_owned(),
                priority: priority.parse().ok()?,
            });
        }
        (false, ["type", name, rest @ ..]) => {
            let own = (file.group.clone(), file.version.clone());
            let kind = match option(rest, "kind") {
                Some(gv) => Some(gv.rsplit_once('/').map_or((String::new(), gv.into()), |(g, v)| (g.into(), v.into()))),
                None => rest.contains(&"kind").then_some(own),
            };
            file.types.push(Type {
                name: name.to_string(),
                kind,
                atomic: option(rest, "map") == Some("atomic"),
                union: option(rest, "union").and_then(call).map(|(discriminator, members)| {
                    let members = members.iter().filter_map(|member| member.split_once(':'));
                    (discriminator, members.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
                }),
                fields: Vec::new(),
            });
        }
        (true, [name, numbers, ty, rest @ ..]) => {
            let field = read_field(file, name, numbers, ty, rest)?;
            file.types.last_mut()?.fields.push(field);
        }
        _ => return None,
    }
    Some(())
}

fn read_field(file: &GroupVersion, name: &str, numbers: &str, ty: &str, rest: &[&str]) -> Option<Field> {
    let (list_type, list_keys) = option(rest, "list").map(|text| call(text).unwrap_or((text.into(), vec![]))).unzip();
    let (patch, merge_key) = option(rest, "patch").map(|text| call(text).unwrap_or((text.into(), vec![]))).unzip();
    let values = |name| option(rest, name).map(|text| text.split('|').map(str::to_owned).collect()).unwrap_or_default();
    Some(Field {
        name: name.to_owned(),
        numbers: numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?,
        ty: field_type(file, ty)?,
        required: rest.contains(&"required"),
        pointer: rest.contains(&"ptr"),
        always: rest.contains(&"always"),
        omit_zero: rest.contains(&"omitzero") || rest.contains(&"omitempty"),
        no_default: rest.contains(&"nodefault"),
        secret: rest.contains(&"secret"),
        unique: rest.contains(&"unique"),
        typed: rest.contains(&"typed"),
        rare: rest.contains(&"rare"),
        inline: rest.contains(&"inline"),
        list: list_type,
        list_keys: list_keys.unwrap_or_default(),
        patch: list(patch.as_deref()),
        merge_key: merge_key.and_then(|keys| keys.into_iter().next()),
        atomic_map: option(rest, "map") == Some("atomic"),
        values: values("enum"),
        item_values: values("items-enum"),
        default: option(rest, "default").map(str::to_owned),
    })
}

fn field_type(file: &GroupVersion, text: &str) -> Option<FieldType> {
    if let Some(item) = text.strip_prefix("[]") {
        return Some(FieldType::List(Box::new(field_type(file, item)?)));
    }
    if let Some(item) = text.strip_prefix("{}") {
        return Some(FieldType::Map(Box::new(field_type(file, item)?)));
    }
    Some(match text.split('.').collect::<Vec<_>>()[..] {
        [module, version, name] => FieldType::Message(module.into(), version.into(), name.into()),
        [name] if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            FieldType::Message(file.module.clone(), file.version.clone(), name.into())
        }
        [scalar] => FieldType::Scalar(scalar.into()),
        _ => return None,
    })
}

/// The value of `name=value` among the words.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The parts of `name(a,b)`.
fn call(text: &str) -> Option<(String, Vec<String>)> {
    let (name, rest) = text.split_once('(')?;
    Some((name.to_owned(), list(Some(rest.strip_suffix(')')?))))
}

fn list(text: Option<&str>) -> Vec<String> {
    text.into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
}

/// Words between blanks; a word that begins with a quote ends with the next one.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}
