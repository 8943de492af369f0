//! `kubewright crd diff`: reads definitions, compares them, and prints what breaks.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_core::{DynamicObject, Object, Value};
use kubewright_yaml as yaml;

use super::{definitions, objects};
use crate::connection::Connection;
use crate::output::print;

pub const HELP: &str = "\
Examples:
  kubewright crd diff old.yaml new.yaml
  git show main:crd.yaml | kubewright crd diff - crd.yaml
  kubewright crd diff old.yaml new.yaml --context production

Exit status: 0 every change is compatible; 1 at least one is not, or a file cannot be read.";

/// The definitions, and the cluster with their objects.
#[derive(Debug, Args)]
pub struct DiffOptions {
    /// The file with the definitions before the change, in YAML or JSON; `-` is standard input.
    old: PathBuf,
    /// The file with the definitions after the change; `-` is standard input.
    new: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// Compares all definitions of both files by name.
pub async fn diff(options: &DiffOptions) -> Result<(), Box<dyn Error>> {
    if options.old == options.new && options.old == Path::new("-") {
        return Err("only one of the two files can be standard input".into());
    }
    let (old, new) = (read(&options.old)?, read(&options.new)?);
    let mut problems = 0;
    for before in &old {
        let name = before.name();
        let Some(after) = new.iter().find(|after| after.name() == name) else {
            problems += 1;
            print(format!("{name}: is removed, and all its objects are deleted\n"))?;
            continue;
        };
        let (before, after) = (tree(before)?, tree(after)?);
        for problem in definitions::compare(&before, &after) {
            problems += 1;
            print(format!("{name}: {problem}\n"))?;
        }
        if options.connection.is_given() {
            for problem in objects::invalidated(&options.connection.client()?, &before, &after).await? {
                problems += 1;
                print(format!("{name}: {problem}\n"))?;
            }
        }
    }
    match problems {
        0 => Ok(print("compatible\n")?),
        1 => Err("the change is incompatible: 1 problem".into()),
        several => Err(format!("the change is incompatible: {several} problems").into()),
    }
}

/// The definitions of a file. Other objects in it are skipped.
fn read(file: &Path) -> Result<Vec<DynamicObject>, Box<dyn Error>> {
    let failed = |error: &dyn Error| format!("{}: {}", file.display(), crate::failure::chain(error));
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(|error| failed(&error))?;
    } else {
        text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    }
    let objects = yaml::objects(&text).map_err(|error| failed(&error))?;
    let mut definitions = Vec::new();
    for object in objects.into_iter().filter(|object| object.kind == "CustomResourceDefinition") {
        if object.api_version != "apiextensions.k8s.io/v1" {
            return Err(format!("{}: {} is not supported", file.display(), object.api_version).into());
        }
        definitions.push(object);
    }
    if definitions.is_empty() {
        return Err(format!("{}: there is no CustomResourceDefinition in it", file.display()).into());
    }
    Ok(definitions)
}

fn tree(definition: &DynamicObject) -> Result<Value, Box<dyn Error>> {
    Ok(Value::from_json(&definition.to_json())?)
}
