//! Reads the objects of manifests, and applies them in an order in which they can exist.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubewright_client::Client;
use kubewright_client::discovery::RestMapper;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{DynamicObject, Object};
use kubewright_yaml as yaml;

use crate::export::rank;

/// The endings of manifests. Other files of a directory are ignored, as by kubectl.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Timeout until the resource of a definition is served.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// The objects of files, of the manifests in directories, and of standard input (`-`).
///
/// Definitions and namespaces come first, pods last.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<DynamicObject>, Box<dyn Error>> {
    let mut objects = Vec::new();
    for path in paths {
        let about = |error: Box<dyn Error>| format!("{}: {error}", path.display());
        for file in files(path).map_err(|error| about(error.into()))? {
            let text = read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            objects.extend(yaml::objects(&text).map_err(|error| format!("{}: {error}", file.display()))?);
        }
    }
    objects.sort_by_key(|object| rank(&object.group_version_kind().kind, !object.namespace().is_empty()));
    Ok(objects)
}

/// The file itself, or the manifests of a directory by name.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let is_manifest = file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if is_manifest && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let endings = ENDINGS.map(|ending| format!(".{ending}")).join(", ");
        return Err(std::io::Error::other(format!("the directory has no manifests: files that end with {endings}")));
    }
    Ok(files)
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

/// Applies one object, and returns the server's. Waits until the resource of a definition is
/// served.
pub async fn apply(
    client: &Client,
    mapper: &RestMapper,
    object: &DynamicObject,
    options: &ApplyOptions,
) -> Result<DynamicObject, Box<dyn Error>> {
    let applied = mapper.api_of(object).await?.apply(object, options).await?;
    if object.group_version_kind().kind == "CustomResourceDefinition" && !options.dry_run {
        wait_until_served(client, object.name()).await?;
    }
    Ok(applied)
}

/// Waits until the resource of a definition is served.
async fn wait_until_served(client: &Client, name: &str) -> Result<(), Box<dyn Error>> {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let served = async {
        loop {
            let found = client.discovery().discover().await?;
            let mut resources = found.preferred_resources();
            if resources.any(|(version, resource)| version.group == *group && resource.plural == *plural) {
                return Ok::<(), Box<dyn Error>>(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(ESTABLISHED_TIMEOUT, served).await.map_err(|_| "its resource is not served yet")?
}

/// An object in kubectl's notation: `pod/web`, `deployment.apps/web`.
pub fn type_and_name(object: &DynamicObject) -> String {
    let kind = object.group_version_kind();
    let dot = if kind.group.is_empty() { "" } else { "." };
    format!("{}{dot}{}/{}", kind.kind.to_lowercase(), kind.group, object.name())
}
