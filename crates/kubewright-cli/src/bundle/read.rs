//! Reads a bundle from its folder.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use kubewright_core::Value;
use kubewright_yaml as yaml;

/// The kind of the manifest that describes the operator.
const CSV: &str = "ClusterServiceVersion";

/// The annotations that metadata/annotations.yaml must have, with their values if these are fixed.
const ANNOTATIONS: [(&str, Option<&str>); 6] = [
    ("operators.operatorframework.io.bundle.mediatype.v1", Some("registry+v1")),
    ("operators.operatorframework.io.bundle.manifests.v1", Some("manifests/")),
    ("operators.operatorframework.io.bundle.metadata.v1", Some("metadata/")),
    ("operators.operatorframework.io.bundle.package.v1", None),
    ("operators.operatorframework.io.bundle.channels.v1", None),
    ("operators.operatorframework.io.bundle.channel.default.v1", None),
];

/// A bundle.
#[derive(Debug)]
pub struct Bundle {
    /// The ClusterServiceVersion.
    pub csv: Value,
    /// The CustomResourceDefinitions.
    pub definitions: Vec<Value>,
    /// Other objects.
    pub objects: Vec<Value>,
    pub channels: Vec<String>,
    pub compressed_size: usize,
    pub size: usize,
}

impl Bundle {
    /// Reads the bundle in a folder.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
        for part in [&manifests, &metadata] {
            if !part.is_dir() {
                return Err(format!("{} is no bundle: it has no folder {}", folder.display(), part.display()));
            }
        }
        let channels = channels(&metadata.join("annotations.yaml"))?;
        let (mut services, mut definitions, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let (mut size, mut packed) = (0, GzEncoder::new(Vec::new(), Compression::default()));
        let entries = fs::read_dir(&manifests).map_err(|error| format!("{}: {error}", manifests.display()))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        for file in files {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = fs::read_to_string(&file).map_err(|error| failed(&error))?;
            size += text.len();
            packed.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
            for document in yaml::parse_all(&text).map_err(|error| failed(&error))? {
                match document.value.get("kind").and_then(Value::as_str) {
                    Some(CSV) => services.push(document.value),
                    Some("CustomResourceDefinition") => definitions.push(document.value),
                    Some(_) => objects.push(document.value),
                    None if document.value.is_null() => {}
                    None => return Err(failed(&"a document has no `kind`")),
                }
            }
        }
        let compressed_size = packed.finish().map_err(|error| error.to_string())?.len();
        let count = services.len();
        match (services.pop(), count) {
            (Some(csv), 1) => Ok(Bundle { csv, definitions, objects, channels, compressed_size, size }),
            _ => Err(format!("{} has {count} manifests of the kind {CSV}, and needs one", manifests.display())),
        }
    }

    /// The name of the version, such as `shop.v0.1.0`.
    pub fn name(&self) -> &str {
        text_at(&self.csv, &["metadata", "name"]).unwrap_or_default()
    }
}

/// The channels, from the annotations of the bundle.
fn channels(file: &Path) -> Result<Vec<String>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    let tree = yaml::parse(&text).map_err(|error| failed(&error))?.value;
    let annotation = |name: &str| tree.get("annotations").and_then(|annotations| annotations.get(name)?.as_str());
    for (name, value) in ANNOTATIONS {
        match (annotation(name), value) {
            // The default channel is optional.
            (None, _) if name.contains("channel.default") => {}
            (None, _) => return Err(failed(&format!("the annotation {name} is missing"))),
            (Some(found), Some(value)) if found != value => {
                return Err(failed(&format!("the annotation {name} is {found:?}, and must be {value:?}")));
            }
            _ => {}
        }
    }
    let names = ANNOTATIONS[4..].iter().filter_map(|(name, _)| annotation(name));
    let mut channels: Vec<String> =
        names.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
    channels.sort();
    channels.dedup();
    Ok(channels)
}

/// The value at a path.
pub fn at<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(tree, |tree, field| tree.get(field))
}

/// The text at a path.
pub fn text_at<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(tree, path).and_then(Value::as_str)
}

/// The items of the list at a path.
pub fn items_at<'a>(tree: &'a Value, path: &[&str]) -> Vec<&'a Value> {
    at(tree, path).and_then(Value::as_array).map(|items| items.iter().collect()).unwrap_or_default()
}
