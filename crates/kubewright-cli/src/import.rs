//! `kubewright import`: applies the objects of YAML files to a cluster.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kubewright_client::Client;
use kubewright_client::discovery::RestMapper;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{DynamicObject, Object};
use kubewright_yaml as yaml;

use crate::connection::Connection;
use crate::export::rank;
use crate::output::print;

/// The field manager of imported objects.
const FIELD_MANAGER: &str = "kubewright-import";

/// Timeout until the resource of a definition is served.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// The files, and how they are applied.
#[derive(Debug, Args)]
pub struct ImportOptions {
    /// Files of YAML or JSON; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Takes fields over from other field managers. Without it, they are conflicts.
    #[arg(long)]
    force: bool,
    /// Dry run: the server validates the objects without storing them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Applies all objects: definitions and namespaces first, pods last.
///
/// A failed object does not stop the others.
#[allow(clippy::print_stderr)]
pub async fn import(options: &ImportOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let mut objects = Vec::new();
    for file in &options.files {
        objects.extend(read_objects(file)?);
    }
    let rank = |object: &DynamicObject| rank(&object.group_version_kind().kind, !object.namespace().is_empty());
    objects.sort_by_key(rank);
    let mapper = client.rest_mapper();
    let mut failures = 0;
    for object in &objects {
        let name = format!("{}/{}", object.group_version_kind().kind.to_lowercase(), object.name());
        match apply_object(&client, &mapper, object, options.force, options.dry_run).await {
            Ok(()) => print(format!("{name} imported\n"))?,
            Err(error) => {
                failures += 1;
                eprintln!("{name}: {}", crate::failure::chain(&*error));
            }
        }
    }
    if failures > 0 {
        return Err(format!("{failures} of {} objects were not imported", objects.len()).into());
    }
    Ok(())
}

/// The objects of a file.
pub fn read_objects(file: &Path) -> Result<Vec<DynamicObject>, String> {
    let text = read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    yaml::objects(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Applies the objects of files, definitions first, and waits until these are served.
pub async fn apply_files(client: &Client, files: &[PathBuf], force: bool) -> Result<(), Box<dyn Error>> {
    let mut objects = Vec::new();
    for file in files {
        objects.extend(read_objects(file)?);
    }
    let rank = |object: &DynamicObject| rank(&object.group_version_kind().kind, !object.namespace().is_empty());
    objects.sort_by_key(rank);
    let mapper = client.rest_mapper();
    for object in &objects {
        let name = format!("{}/{}", object.group_version_kind().kind.to_lowercase(), object.name());
        let applied = apply_object(client, &mapper, object, force, false).await;
        applied.map_err(|error| format!("{name}: {}", crate::failure::chain(&*error)))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, Box<dyn Error>> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    Ok(std::fs::read_to_string(file)?)
}

async fn apply_object(
    client: &Client,
    mapper: &RestMapper,
    object: &DynamicObject,
    force: bool,
    dry_run: bool,
) -> Result<(), Box<dyn Error>> {
    let mut apply = ApplyOptions::new(FIELD_MANAGER);
    apply.force = force;
    apply.dry_run = dry_run;
    mapper.api_of(object).await?.apply(object, &apply).await?;
    if object.group_version_kind().kind == "CustomResourceDefinition" && !dry_run {
        wait_until_served(client, object.name()).await?;
    }
    Ok(())
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
