//! `kubewright types`: Rust types of custom resources, from their definitions.
//!
//! `shape` reads a schema into structs and enums, `idents` names them, and `render` writes them.

mod idents;
mod render;
mod shape;

use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_core::Value;
use kubewright_yaml as yaml;

use crate::project::{module_of, rustfmt};
use render::ResourceVersion;

pub const HELP: &str = "\
Examples:
  kubewright types certificates.yaml > src/certificate.rs        the version in which objects are stored
  kubewright types crds.yaml --all-versions -o src/crds.rs       a module for each kind, and for each version
  kubectl get crd orders.example.com -o yaml | kubewright types -

The project needs: kubewright with the feature `derive`, schemars, serde with `derive`, and serde_json.";

/// The file, and which versions are written.
#[derive(Debug, Args)]
pub struct TypesOptions {
    /// A file of CustomResourceDefinitions in YAML or JSON; `-` is standard input. Other objects
    /// are ignored.
    #[arg(required = true)]
    file: PathBuf,
    /// Writes this version of each definition. By default the one in which objects are stored.
    #[arg(long, value_name = "VERSION", conflicts_with = "all_versions")]
    version: Option<String>,
    /// Writes all versions.
    #[arg(long)]
    all_versions: bool,
    /// Writes this file, which must not exist. By default standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the types.
pub fn types(options: &TypesOptions) -> Result<(), Box<dyn Error>> {
    let text = read(&options.file).map_err(|error| format!("{}: {error}", options.file.display()))?;
    let code = generate(&text, options).map_err(|problem| format!("{}: {problem}", options.file.display()))?;
    let code = rustfmt(Path::new("."), &code).unwrap_or(code);
    let Some(output) = &options.output else { return Ok(crate::output::print(code)?) };
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} exists, and is left as it is", output.display()),
        _ => format!("{}: {error}", output.display()),
    };
    std::fs::File::create_new(output).and_then(|mut file| file.write_all(code.as_bytes())).map_err(failed)?;
    Ok(crate::output::print(format!("wrote {}\n", output.display()))?)
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

/// The code of the definitions in a text.
fn generate(text: &str, options: &TypesOptions) -> Result<String, String> {
    let definitions = definitions(text)?;
    let mut modules = Vec::new();
    for definition in &definitions {
        let wanted = versions(definition, options)?;
        let is_alone = wanted.len() == 1;
        let code: Vec<(String, String)> =
            wanted.iter().map(|resource| (resource.version.to_owned(), render::render(resource))).collect();
        modules.push((module_of(&code_name(definition)), is_alone, code));
    }
    let mut out = String::from(render::HEAD);
    if let [(_, true, code)] = &modules[..] {
        return Ok(out + &code[0].1);
    }
    let mut names: Vec<String> = Vec::new();
    for (module, is_alone, code) in modules {
        let mut name = module.clone();
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name.clone());
        out += &format!("pub mod {name} {{\n");
        for (version, text) in code {
            if is_alone {
                out += &text;
            } else {
                out += &format!("pub mod {version} {{\n{text}}}\n");
            }
        }
        out += "}\n";
    }
    Ok(out)
}

/// The kind of a definition.
fn code_name(definition: &Value) -> String {
    text_of(definition, &["spec", "names", "kind"]).unwrap_or_default().to_owned()
}

fn text_of<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(tree, |tree, field| tree.get(field)).and_then(Value::as_str)
}

/// The definitions in a text, also those in lists.
fn definitions(text: &str) -> Result<Vec<Value>, String> {
    let documents = yaml::parse_all(text).map_err(|error| error.to_string())?;
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let mut trees: Vec<Value> = documents.into_iter().map(|document| document.value).rev().collect();
    while let Some(tree) = trees.pop() {
        let kind = tree.get("kind").and_then(Value::as_str).unwrap_or_default();
        if let Some(items) = tree.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List")) {
            trees.extend(items.iter().rev().cloned());
            continue;
        }
        match (kind, tree.get("apiVersion").and_then(Value::as_str)) {
            ("CustomResourceDefinition", Some("apiextensions.k8s.io/v1")) => found.push(tree),
            ("CustomResourceDefinition", version) => {
                return Err(format!(
                    "a CustomResourceDefinition of {}; only apiextensions.k8s.io/v1 is read, as by servers since 1.22",
                    version.unwrap_or("no apiVersion")
                ));
            }
            ("", _) => {}
            (kind, _) => others.push(kind.to_owned()),
        }
    }
    if found.is_empty() {
        others.sort();
        others.dedup();
        let others = if others.is_empty() { String::new() } else { format!(", but {}", others.join(", ")) };
        return Err(format!("there is no CustomResourceDefinition in it{others}"));
    }
    Ok(found)
}

/// The versions to write.
fn versions<'a>(definition: &'a Value, options: &TypesOptions) -> Result<Vec<ResourceVersion<'a>>, String> {
    let missing = |what: &str| format!("a CustomResourceDefinition lacks {what}");
    let required = |path: &[&str]| text_of(definition, path).ok_or_else(|| missing(&path.join(".")));
    let (group, kind) = (required(&["spec", "group"])?, required(&["spec", "names", "kind"])?);
    let all = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let mut wanted = Vec::new();
    let mut names = Vec::new();
    for version in all.into_iter().flatten() {
        let name = version.get("name").and_then(Value::as_str).ok_or_else(|| missing("the name of a version"))?;
        names.push(name);
        let is_stored = version.get("storage").and_then(Value::as_bool) == Some(true);
        let is_wanted = options.all_versions || options.version.as_deref().map_or(is_stored, |wanted| wanted == name);
        if is_wanted {
            wanted.push(ResourceVersion {
                group,
                version: name,
                kind,
                names: definition.get("spec").and_then(|spec| spec.get("names")),
                is_namespaced: text_of(definition, &["spec", "scope"]) != Some("Cluster"),
                schema: version.get("schema").and_then(|schema| schema.get("openAPIV3Schema")),
            });
        }
    }
    if wanted.is_empty() {
        let what = options.version.as_deref().map_or("stored version".to_owned(), |name| format!("version {name:?}"));
        return Err(format!("{kind} of {group} has no {what}; there are: {}", names.join(", ")));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(version: Option<&str>) -> TypesOptions {
        TypesOptions { file: "-".into(), version: version.map(str::to_owned), all_versions: false, output: None }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        const V1: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";
        let one = format!("{V1}spec: {{group: a.b, names: {{kind: A}}, versions: [{{name: v1, storage: true}}]}}\n");
        for (text, version, told) in [
            ("kind: Service\n", None, "no CustomResourceDefinition in it, but Service"),
            ("a: [", None, "yaml"),
            (
                "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1beta1\n",
                None,
                "only apiextensions.k8s.io/v1",
            ),
            (V1, None, "lacks spec.group"),
            (&one, Some("v2"), "has no version \"v2\"; there are: v1"),
        ] {
            let problem = generate(text, &options(version)).expect_err(told);
            assert!(problem.to_lowercase().contains(&told.to_lowercase()), "{problem}");
        }
        assert!(generate(&one, &options(None)).is_ok());
    }

    /// The examples compile the file, and decode objects with it.
    #[test]
    fn every_feature_of_schemas_is_written_as_the_examples_compile_it() {
        const CODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tests/types/generated.rs");
        let text = include_str!("../../../../examples/tests/types/definitions.yaml");
        let options = TypesOptions { all_versions: true, ..options(None) };
        let code = generate(text, &options).expect("the definitions are valid");
        let code =
            rustfmt(Path::new(env!("CARGO_MANIFEST_DIR")), &code).expect("rustfmt is installed, and the code is Rust");
        if std::env::var_os("KUBEWRIGHT_UPDATE").is_some() {
            std::fs::write(CODE, &code).unwrap();
        }
        let written = std::fs::read_to_string(CODE).unwrap_or_default();
        let plain = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
        assert!(plain(&written) == plain(&code), "run the test with KUBEWRIGHT_UPDATE=1");
    }
}
