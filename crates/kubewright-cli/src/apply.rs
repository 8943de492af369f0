//! `kubewright apply`: creates or changes the objects of manifests, by server-side apply.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use kubewright_client::Client;
use kubewright_client::discovery::RestMapper;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{DynamicObject, Object};

use crate::connection::Connection;
use crate::output::print;
use crate::{failure, manifests};

/// The field manager of applied objects.
const FIELD_MANAGER: &str = "kubewright";

pub const HELP: &str = "\
Examples:
  kubewright apply -f deployment.yaml
  kubewright apply -f manifests/ --dry-run
  kubewright export --context old | kubewright apply --context new -f -";

/// The manifests, and how they are applied.
#[derive(Debug, Args)]
pub struct ApplyCommandOptions {
    /// A file of YAML or JSON, a directory of them, or `-` for standard input. May be repeated.
    #[arg(long = "filename", short = 'f', required = true, value_name = "FILE | DIR")]
    files: Vec<PathBuf>,
    /// The namespace of objects that name none; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Takes fields over from other field managers. Without it, they are conflicts.
    #[arg(long)]
    force_conflicts: bool,
    /// Dry run: the server validates the objects without storing them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Applies all objects. A failed object does not stop the others.
pub async fn apply(options: &ApplyCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let mut objects = manifests::read_all(&options.files)?;
    let mapper = client.rest_mapper();
    let mut apply = ApplyOptions::new(FIELD_MANAGER);
    apply.force = options.force_conflicts;
    apply.dry_run = options.dry_run;
    let suffix = if options.dry_run { " (server dry run)" } else { "" };
    let mut errors: Vec<Box<dyn Error>> = Vec::new();
    for object in &mut objects {
        let name = manifests::type_and_name(object);
        match apply_one(&client, &mapper, object, options.namespace.as_deref(), &apply).await {
            Ok(what) => print(format!("{name} {what}{suffix}\n"))?,
            Err(error) => errors.push(format!("{name}: {}", failure::chain(&*error)).into()),
        }
    }
    failure::all(errors)
}

/// Applies an object, and says in kubectl's word what that did.
async fn apply_one(
    client: &Client,
    mapper: &RestMapper,
    object: &mut DynamicObject,
    namespace: Option<&str>,
    options: &ApplyOptions,
) -> Result<&'static str, Box<dyn Error>> {
    let kind = object.group_version_kind();
    let found = mapper.kind(&kind.group_kind(), &[&kind.version]).await;
    if let Some(namespace) = namespace.filter(|_| found.is_ok_and(|mapping| mapping.namespaced)) {
        match object.namespace() {
            "" => object.metadata.namespace = Some(namespace.into()),
            own if own == namespace => {}
            own => {
                let text = format!("the manifest names the namespace {own:?}, and --namespace is {namespace:?}");
                return Err(text.into());
            }
        }
    }
    let before = mapper.api_of(object).await?.get_opt(object.name()).await?;
    let applied = manifests::apply(client, mapper, object, options).await?;
    Ok(match before {
        None => "created",
        Some(before) if is_same(&before, &applied, options.dry_run) => "unchanged",
        Some(_) => "configured",
    })
}

/// Whether the server's object is as before. A dry run does not change its resource version.
fn is_same(before: &DynamicObject, applied: &DynamicObject, dry_run: bool) -> bool {
    let content = |object: &DynamicObject| {
        let mut object = object.clone();
        object.remove(&["metadata", "managedFields"]);
        object.to_json()
    };
    before.resource_version() == applied.resource_version() && (!dry_run || content(before) == content(applied))
}

/// Applies the manifests of a new cluster. The first error ends it.
pub async fn load(client: &Client, paths: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let mapper = client.rest_mapper();
    let options = ApplyOptions::new(FIELD_MANAGER).force();
    for object in manifests::read_all(paths)? {
        let name = manifests::type_and_name(&object);
        let applied = manifests::apply(client, &mapper, &object, &options).await;
        applied.map_err(|error| format!("cannot apply {name}: {}", failure::chain(&*error)))?;
        tracing::info!("applied {name}");
    }
    Ok(())
}
