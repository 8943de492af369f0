//! `kubewright import`: applies the objects of YAML files to a cluster.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use kubewright_core::Object;
use kubewright_core::options::ApplyOptions;

use crate::connection::Connection;
use crate::manifests;
use crate::output::print;

/// The field manager of imported objects.
const FIELD_MANAGER: &str = "kubewright-import";

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
    let objects = manifests::read_all(&options.files)?;
    let mut apply = ApplyOptions::new(FIELD_MANAGER);
    apply.force = options.force;
    apply.dry_run = options.dry_run;
    let mapper = client.rest_mapper();
    let mut failures = 0;
    for object in &objects {
        let name = format!("{}/{}", object.group_version_kind().kind.to_lowercase(), object.name());
        match manifests::apply(&client, &mapper, object, &apply).await {
            Ok(_) => print(format!("{name} imported\n"))?,
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
