//! Reads one file of the description, line by line.
//!
//! Unknown words are errors, so that a misspelt modifier does not silently change the API.

use super::{Column, Field, FieldType, GroupVersion, Resource, Subresource, Type};

const SCALARS: &[&str] = &[
    "bool",
    "int32",
    "int64",
    "double",
    "string",
    "bytes",
    "quantity",
    "int-or-string",
    "time",
    "microtime",
    "raw",
    "schema-or-array",
    "schema-or-bool",
    "schema-or-strings",
];
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Modifiers of fields that stand alone.
const FLAGS: &[&str] =
    &["required", "ptr", "always", "omitzero", "omitempty", "nodefault", "secret", "unique", "typed", "rare", "inline"];
/// Modifiers of fields that have a value.
const OPTIONS: &[&str] = &["list", "map", "patch", "enum", "items-enum", "default"];
/// Maximum line length.
const MAX_WIDTH: usize = 120;

/// Parses a group version. Errors name the line.
pub fn parse(module: &str, text: &str) -> Result<GroupVersion, (usize, String)> {
    let file = GroupVersion {
        module: module.to_owned(),
        group: String::new(),
        version: String::new(),
        package: String::new(),
        resources: Vec::new(),
        types: Vec::new(),
    };
    let mut parser = Parser { file, doc: None };
    let mut last = 0;
    for (line, number) in text.lines().zip(1..) {
        parser.read_line(line).map_err(|problem| (number, problem))?;
        last = number;
    }
    match parser.doc {
        Some(_) => Err((last, "this doc has nothing below it".into())),
        None => Ok(parser.file),
    }
}

struct Parser {
    file: GroupVersion,
    /// The doc of the line that follows.
    doc: Option<String>,
}

impl Parser {
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(doc) = line.trim_start().strip_prefix("///") {
            return self.read_doc(line, doc.trim());
        }
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let doc = self.doc.take();
        let is_inner = line.starts_with(' ');
        // Resources come first: below a type, the same words are field names.
        let has_types = !self.file.types.is_empty();
        match (is_inner, &words[..]) {
            (false, ["type", name, rest @ ..]) => self.read_type(doc, name, rest),
            (true, [name, numbers, ty, rest @ ..]) if has_types && !name.starts_with('#') => {
                self.read_field(doc, name, numbers, ty, rest)
            }
            _ if doc.is_some() => Err("the doc above belongs above a type or a field".into()),
            (_, []) => Ok(()),
            (_, [word, ..]) if word.starts_with('#') => Ok(()),
            (false, ["group", group, "version", version, "package", package]) => {
                self.file.group = group.to_string();
                self.file.version = version.to_string();
                self.file.package = package.to_string();
                Ok(())
            }
            (false, ["resource", plural, kind, scope, rest @ ..]) => self.read_resource(plural, kind, scope, rest),
            (true, ["sub", name, kind, rest @ ..]) if !has_types => self.read_subresource(name, kind, rest),
            (true, ["column", name, ty, format, priority]) if !has_types => {
                let column = Column {
                    name: name.to_string(),
                    ty: ty.to_string(),
                    format: format.trim_matches('-').to_owned(),
                    priority: priority.parse().map_err(|_| format!("{priority} is not a priority"))?,
                };
                self.resource()?.columns.push(column);
                Ok(())
            }
            _ => Err(format!("cannot read this line: {line}")),
        }
    }

    fn read_doc(&mut self, line: &str, doc: &str) -> Result<(), String> {
        if self.doc.is_some() {
            return Err("a doc is one line".into());
        }
        if line.chars().count() > MAX_WIDTH {
            return Err(format!("this doc is wider than {MAX_WIDTH} columns"));
        }
        if !doc.ends_with('.') {
            return Err("a doc is a sentence with a full stop".into());
        }
        self.doc = Some(doc.to_owned());
        Ok(())
    }

    fn resource(&mut self) -> Result<&mut Resource, String> {
        self.file.resources.last_mut().ok_or_else(|| "there is no resource above this line".into())
    }

    fn read_resource(&mut self, plural: &str, kind: &str, scope: &str, rest: &[&str]) -> Result<(), String> {
        check_words(rest, &[], &["singular", "short", "categories", "verbs"])?;
        let namespaced = match scope {
            "namespaced" => true,
            "cluster" => false,
            other => return Err(format!("unknown scope {other}, known are namespaced, cluster")),
        };
        self.file.resources.push(Resource {
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            singular: option(rest, "singular").ok_or("a resource has a singular")?.to_owned(),
            short_names: list(option(rest, "short")),
            categories: list(option(rest, "categories")),
            verbs: verbs(rest)?,
            subresources: Vec::new(),
            columns: Vec::new(),
        });
        Ok(())
    }

    fn read_subresource(&mut self, name: &str, kind: &str, rest: &[&str]) -> Result<(), String> {
        check_words(rest, &[], &["verbs"])?;
        let subresource = Subresource { name: name.to_owned(), kind: kind.to_owned(), verbs: verbs(rest)? };
        self.resource()?.subresources.push(subresource);
        Ok(())
    }

    fn read_type(&mut self, doc: Option<String>, name: &str, rest: &[&str]) -> Result<(), String> {
        check_words(rest, &["kind"], &["kind", "map", "union"])?;
        known_or("map", option(rest, "map"), &["atomic"])?;
        let kind = match option(rest, "kind") {
            Some(gv) => Some(gv.rsplit_once('/').map_or((String::new(), gv.into()), |(g, v)| (g.into(), v.into()))),
            None => rest.contains(&"kind").then(|| (self.file.group.clone(), self.file.version.clone())),
        };
        self.file.types.push(Type {
            doc: doc.unwrap_or_default(),
            name: name.to_owned(),
            kind,
            atomic: option(rest, "map") == Some("atomic"),
            union: option(rest, "union").and_then(call).map(|(discriminator, members)| {
                let members = members.iter().filter_map(|member| member.split_once(':'));
                (discriminator, members.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
            }),
            fields: Vec::new(),
        });
        Ok(())
    }

    fn read_field(
        &mut self,
        doc: Option<String>,
        name: &str,
        numbers: &str,
        ty: &str,
        rest: &[&str],
    ) -> Result<(), String> {
        check_words(rest, FLAGS, OPTIONS)?;
        let parts = |name| option(rest, name).map(|text| call(text).unwrap_or((text.into(), vec![])));
        let (list_type, list_keys) = parts("list").unzip();
        let (patch, merge_key) = parts("patch").unzip();
        let values =
            |name| option(rest, name).map(|text| text.split('|').map(str::to_owned).collect()).unwrap_or_default();
        for (name, value, known) in [
            ("list", list_type.as_deref(), &["map", "set", "atomic"][..]),
            ("map", option(rest, "map"), &["atomic", "granular"]),
        ] {
            known_or(name, value, known)?;
        }
        let patch = list(patch.as_deref());
        for strategy in &patch {
            known_or("patch", Some(strategy), &["merge", "replace", "retainKeys"])?;
        }
        let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>();
        let field = Field {
            doc: doc.unwrap_or_default(),
            name: name.to_owned(),
            numbers: numbers.ok_or_else(|| format!("{name} has no protobuf number"))?,
            ty: self.field_type(ty)?,
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
            patch,
            merge_key: merge_key.and_then(|keys| keys.into_iter().next()),
            atomic_map: option(rest, "map") == Some("atomic"),
            values: values("enum"),
            item_values: values("items-enum"),
            default: option(rest, "default").map(str::to_owned),
        };
        self.file.types.last_mut().ok_or("there is no type above this field")?.fields.push(field);
        Ok(())
    }

    fn field_type(&self, text: &str) -> Result<FieldType, String> {
        if let Some(item) = text.strip_prefix("[]") {
            return Ok(FieldType::List(Box::new(self.field_type(item)?)));
        }
        if let Some(item) = text.strip_prefix("{}") {
            return Ok(FieldType::Map(Box::new(self.field_type(item)?)));
        }
        match text.split('.').collect::<Vec<_>>()[..] {
            [module, version, name] => Ok(FieldType::Message(module.into(), version.into(), name.into())),
            [name] if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Ok(FieldType::Message(self.file.module.clone(), self.file.version.clone(), name.into()))
            }
            [scalar] if SCALARS.contains(&scalar) => Ok(FieldType::Scalar(scalar.into())),
            _ => Err(format!("unknown type {text}, known scalars are {}", SCALARS.join(", "))),
        }
    }
}

fn verbs(words: &[&str]) -> Result<Vec<String>, String> {
    let verbs = list(option(words, "verbs"));
    for verb in &verbs {
        known_or("verb", Some(verb), VERBS)?;
    }
    Ok(verbs)
}

/// Each word is a known flag, or `name=value` with a known name.
fn check_words(words: &[&str], flags: &[&str], options: &[&str]) -> Result<(), String> {
    for word in words {
        let is_known = match word.split_once('=') {
            Some((name, _)) => options.contains(&name),
            None => flags.contains(word),
        };
        if !is_known {
            let options = options.iter().map(|name| format!("{name}="));
            let known: Vec<String> = flags.iter().map(|flag| flag.to_string()).chain(options).collect();
            return Err(format!("unknown modifier {word}, known are {}", known.join(", ")));
        }
    }
    Ok(())
}

fn known_or(what: &str, value: Option<&str>, known: &[&str]) -> Result<(), String> {
    match value {
        Some(value) if !known.contains(&value) => {
            Err(format!("unknown {what} {value}, known are {}", known.join(", ")))
        }
        _ => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "group \"apps\" version v1 package io.k8s.api.apps.v1\n";

    fn problem(text: &str) -> (usize, String) {
        parse("apps", &format!("{HEAD}{text}")).expect_err(text)
    }

    #[test]
    fn docs_belong_to_the_line_below() {
        let text = "/// A set of pods.\ntype Foo\n  /// Number of pods.\n  resource 1 int32 ptr\n  bare 2 string\n";
        let parsed = parse("apps", &format!("{HEAD}{text}")).unwrap();
        assert_eq!(parsed.types[0].doc, "A set of pods.");
        let docs: Vec<&str> = parsed.types[0].fields.iter().map(|field| field.doc.as_str()).collect();
        assert_eq!(docs, ["Number of pods.", ""]);
    }

    #[test]
    fn a_doc_is_one_sentence_above_a_type_or_a_field() {
        let wide = format!("/// {}.\ntype Foo\n", "x".repeat(120));
        for (text, line, want) in [
            ("/// A.\n/// B.\ntype Foo\n", 3, "one line"),
            ("/// A\ntype Foo\n", 2, "full stop"),
            (&wide, 2, "wider than 120 columns"),
            ("type Foo\n/// A.\n", 3, "nothing below"),
            ("/// A.\n\ntype Foo\n", 3, "above a type or a field"),
            ("/// A.\nresource foos Foo cluster singular=foo\n", 3, "above a type or a field"),
        ] {
            let (at, problem) = problem(text);
            assert!(at == line && problem.contains(want), "{text}: {at}: {problem}");
        }
    }

    #[test]
    fn an_unknown_scalar_is_an_error() {
        let (line, problem) = problem("type Foo\n  replicas 1 []int23\n");
        assert_eq!(line, 3);
        assert!(problem.starts_with("unknown type int23"), "{problem}");
    }

    #[test]
    fn an_unknown_scope_is_an_error() {
        let (line, problem) = problem("\nresource foos Foo namespace singular=foo verbs=get\n");
        assert_eq!((line, problem.as_str()), (3, "unknown scope namespace, known are namespaced, cluster"));
    }

    #[test]
    fn an_unknown_verb_is_an_error() {
        let (line, resource) = problem("resource foos Foo cluster singular=foo verbs=get,lits\n");
        assert_eq!(line, 2);
        assert!(resource.starts_with("unknown verb lits"), "{resource}");
        let (line, part) = problem("resource foos Foo cluster singular=foo verbs=get\n  sub status Foo verbs=got\n");
        assert_eq!(line, 3);
        assert!(part.starts_with("unknown verb got"), "{part}");
    }

    #[test]
    fn an_unknown_modifier_is_an_error() {
        for (text, want) in [
            ("  a 1 string requird\n", "unknown modifier requird"),
            ("  a 1 string defualt=1\n", "unknown modifier defualt=1"),
            ("  a 1 []string list=atomical\n", "unknown list atomical"),
            ("  a 1 []string patch=mrege(name)\n", "unknown patch mrege"),
        ] {
            let (line, problem) = problem(&format!("type Foo\n{text}"));
            assert_eq!(line, 3);
            assert!(problem.starts_with(want), "{problem}");
        }
        let (_, ty) = problem("type Foo kind mpa=atomic\n");
        assert!(ty.starts_with("unknown modifier mpa=atomic"), "{ty}");
        let (_, map) = problem("type Foo map=atomical\n");
        assert!(map.starts_with("unknown map atomical"), "{map}");
        let (_, resource) = problem("resource foos Foo cluster singular=foo shrot=f\n");
        assert!(resource.starts_with("unknown modifier shrot=f"), "{resource}");
    }

    #[test]
    fn an_error_names_the_file() {
        let path = std::env::temp_dir().join(format!("xtask-{}.v1.api", std::process::id()));
        std::fs::write(&path, format!("{HEAD}type Foo\n  a 1 strng\n")).unwrap();
        let error = super::super::read_file(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.starts_with(&format!("{}:3: unknown type strng", path.display())), "{error}");
    }
}
