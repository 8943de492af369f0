//! `types`: on definitions of our own, and on those of a folder.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubewright_core::{Map, Value, json};
use kubewright_yaml as yaml;

use crate::process::{Scratch, text};
use crate::project::{ROOT, done, run};

#[test]
fn a_file_is_written_once() {
    let scratch = Scratch::new("types");
    fs::create_dir(&scratch.0).expect("it is new");
    let definitions = format!("{ROOT}/examples/tests/types/definitions.yaml");
    let code = done(scratch.path(), &["types", &definitions, "--version", "v1"]);
    assert!(code.contains("pub struct KitchenSpec {") && !code.contains("pub mod v1"), "{code}");
    let said = done(scratch.path(), &["types", &definitions, "--version", "v1", "-o", "kitchen.rs"]);
    assert_eq!(said, "wrote kitchen.rs\n");
    assert_eq!(fs::read_to_string(scratch.0.join("kitchen.rs")).expect("it was written"), code);
    for (arguments, told) in [
        (&["types", definitions.as_str(), "--version", "v1", "-o", "kitchen.rs"][..], "exists, and is left as it is"),
        (&["types", &definitions, "--version", "v1beta1"], "Settings of example.com has no version \"v1beta1\""),
        (&["types", "nowhere.yaml"], "nowhere.yaml: No such file"),
        (&["types", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "Cargo.toml: "),
    ] {
        let (code, said) = run(scratch.path(), arguments);
        assert!(code == Some(1) && said.contains(told), "{arguments:?}: {said}");
    }
}

/// A version of a definition, alone in a definition.
struct OneVersion {
    label: String,
    definition: String,
    schema: Value,
    api_version: String,
    kind: String,
    version: String,
}

/// Types of the definitions in `$KUBEWRIGHT_CRDS`, a folder of YAML files, such as those of
/// cert-manager, Istio and Strimzi. They are compiled, and decode and encode objects that have all
/// fields of their schemas, and objects that have the required ones.
#[test]
#[ignore = "builds the types of a folder of definitions: minutes"]
#[allow(clippy::print_stderr)]
fn definitions_of_others_become_types_that_lose_nothing() {
    let Some(folder) = std::env::var_os("KUBEWRIGHT_CRDS") else {
        eprintln!("SKIPPED: types of the definitions of others, because KUBEWRIGHT_CRDS names no folder of them");
        return;
    };
    let versions = versions_in(Path::new(&folder));
    let scratch = Scratch::new("types");
    let source = scratch.0.join("src");
    fs::create_dir_all(&source).expect("it is new");
    fs::write(
        scratch.0.join("Cargo.toml"),
        format!(
            "[package]\nname = \"types-of-others\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
             kubewright = {{ path = \"{ROOT}/crates/kubewright\", features = [\"derive\", \"secure-metrics\", \"webhook\"] }}\nschemars = \"1\"\n\
             serde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\n"
        ),
    )
    .expect("the folder is ours");
    fs::copy(format!("{ROOT}/Cargo.lock"), scratch.0.join("Cargo.lock")).expect("there is one");
    // The features are those of a new project, whose build is shared.
    let (mut modules, mut calls) = (String::new(), String::new());
    for (index, one) in versions.iter().enumerate() {
        fs::write(scratch.0.join("one.yaml"), &one.definition).expect("the folder is ours");
        let code = done(scratch.path(), &["types", "one.yaml", "--version", &one.version]);
        let named = code.split("struct = \"").nth(1).and_then(|rest| rest.split('"').next());
        let type_name = named.unwrap_or(&one.kind);
        let _ = writeln!(modules, "mod m{index};");
        for (name, value) in [("full", sample(&one.schema, true)), ("least", sample(&one.schema, false))] {
            let mut object = value.as_object().cloned().unwrap_or_default();
            object.insert("apiVersion", Value::from(one.api_version.as_str()));
            object.insert("kind", Value::from(one.kind.as_str()));
            object.insert("metadata", json!({"name": "a"}));
            // A specification that is not required may have required fields.
            let is_full = name == "full";
            if let Some(spec_schema) = one.schema.get("properties").and_then(|all| all.get("spec")) {
                let spec = object.get("spec").cloned().unwrap_or_else(|| sample(spec_schema, is_full));
                object.insert("spec", spec);
            }
            fs::write(source.join(format!("{name}{index}.json")), Value::Object(object).to_string()).expect("ours");
            let label = format!("{} {name}", one.label);
            let _ =
                writeln!(calls, "    check::<m{index}::{type_name}>({label:?}, include_str!(\"{name}{index}.json\"));");
        }
        fs::write(source.join(format!("m{index}.rs")), code).expect("the folder is ours");
    }
    let main = format!(
        "{modules}\nfn check<T: serde::Serialize + serde::de::DeserializeOwned>(label: &str, text: &str) {{\n    \
         let before: serde_json::Value = serde_json::from_str(text).unwrap();\n    \
         let object: T = serde_json::from_str(text).unwrap_or_else(|error| panic!(\"{{label}}: {{error}}: {{text}}\"));\n    \
         assert_eq!(serde_json::to_value(&object).unwrap(), before, \"{{label}}\");\n}}\n\nfn main() {{\n{calls}}}\n"
    );
    fs::write(source.join("main.rs"), main).expect("the folder is ours");
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(&scratch.0).args(["run", "--offline", "--quiet"]);
    cargo.env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/.."));
    let output = cargo.output().expect("cargo runs the tests already");
    assert!(output.status.success(), "{}", text(&output.stderr));
    eprintln!("{} versions of definitions became types", versions.len());
}

fn versions_in(folder: &Path) -> Vec<OneVersion> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let documents = yaml::parse_all(&fs::read_to_string(&file).expect("it is text"))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for definition in documents.into_iter().map(|document| document.value) {
            if definition.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
                continue;
            }
            let spec = definition.get("spec").expect("a definition has a spec");
            let name =
                |tree: &Value, field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (group, kind) = (name(spec, "group"), name(spec.get("names").expect("it has names"), "kind"));
            for version in spec.get("versions").and_then(Value::as_array).into_iter().flatten() {
                let version_name = name(version, "name");
                let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
                found.push(OneVersion {
                    label: format!("{}: {kind} {version_name}", file.display()),
                    definition: definition.to_string(),
                    schema: schema.cloned().unwrap_or_else(|| json!({})),
                    api_version: format!("{group}/{version_name}"),
                    kind: kind.clone(),
                    version: version_name,
                });
            }
        }
    }
    assert!(!found.is_empty(), "{} has no definitions", folder.display());
    found
}

/// A value that fits the form of a schema: with all fields, or with the required ones.
fn sample(schema: &Value, is_full: bool) -> Value {
    let is = |field: &str| schema.get(field).and_then(Value::as_bool) == Some(true);
    let text = |field: &str| schema.get(field).and_then(Value::as_str);
    if is("x-kubernetes-int-or-string") || text("format") == Some("int-or-string") {
        return json!("50%");
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    match text("type") {
        Some("boolean") => json!(true),
        Some("integer") => json!(1),
        Some("number") => json!(0.5),
        Some("string") => {
            let values = schema.get("enum").and_then(Value::as_array);
            values
                .and_then(|values| values.iter().find(|value| !value.is_null()))
                .cloned()
                .unwrap_or_else(|| json!("text"))
        }
        Some("array") => {
            let item = schema.get("items").map_or(Value::Null, |items| sample(items, is_full));
            Value::Array([item].into_iter().collect())
        }
        None if properties.is_none() => json!({"any": [1, null]}),
        _ => object_sample(schema, properties, is_full, is("x-kubernetes-preserve-unknown-fields")),
    }
}

fn object_sample(schema: &Value, properties: Option<&Map<Value>>, is_full: bool, is_open: bool) -> Value {
    let mut object = Map::new();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in properties.into_iter().flat_map(|all| all.iter()) {
        if is_full || required.contains(&name.as_str()) {
            object.insert(name.clone(), sample(property, is_full));
        }
    }
    match schema.get("additionalProperties") {
        Some(values) if values.as_object().is_some_and(|values| !values.is_empty()) => {
            object.insert("key", sample(values, is_full));
        }
        Some(allowed) if allowed.as_bool() == Some(false) => {}
        Some(_) => drop(object.insert("unknownField", json!([1]))),
        None if is_open => drop(object.insert("unknownField", json!({"a": null}))),
        None => {}
    }
    Value::Object(object)
}
