//! `kubewright scale`: sets the replicas of objects that have a scale.

use std::error::Error;

use clap::Args;
use kubewright_core::options::Patch;
use kubewright_core::{Object, json};

use crate::connection::Connection;
use crate::failure;
use crate::get::format::type_name;
use crate::output::print;
use crate::selection::Selection;

pub const HELP: &str = "\
Examples:
  kubewright scale deployment web --replicas 3
  kubewright scale deployment/web statefulset/db --replicas 0
  kubewright scale deployment/web --replicas 3 --current-replicas 2";

/// The objects and their replicas.
#[derive(Debug, Args)]
pub struct ScaleCommandOptions {
    /// Resources and names: `deployment web` or `deployment/web statefulset/db`.
    #[arg(required = true, value_name = "RESOURCE NAME... | RESOURCE/NAME")]
    arguments: Vec<String>,
    /// The number of replicas.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// Scales only objects that have this number of replicas now.
    #[arg(long, value_name = "N")]
    current_replicas: Option<i32>,
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Scales the objects. A failed one does not stop the others.
pub async fn scale(options: &ScaleCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let selection = Selection { namespace: options.namespace.clone(), ..Selection::default() };
    let namespace = selection.namespace(&client).unwrap_or_default();
    let mut errors: Vec<Box<dyn Error>> = Vec::new();
    for one in selection.resolve(&client, &options.arguments).await? {
        if one.names.is_empty() {
            return Err("a resource is given without a name, such as `deployment web`".into());
        }
        let api = one.mapping.api(&client, namespace.as_str());
        for name in &one.names {
            let mut patch = json!({"spec": {"replicas": options.replicas}});
            if let Some(expected) = options.current_replicas {
                let scale = api.get_scale(name).await?;
                let current = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
                if current != expected {
                    errors.push(format!("{name} has {current} replicas, and not {expected}").into());
                    continue;
                }
                // A change in between is a conflict.
                patch = json!({
                    "metadata": {"resourceVersion": scale.resource_version()},
                    "spec": {"replicas": options.replicas},
                });
            }
            match api.patch_scale(name, Patch::merge(patch)).await {
                Ok(_) => print(format!("{}/{name} scaled\n", type_name(&one.mapping)))?,
                Err(error) => errors.push(error.into()),
            }
        }
    }
    failure::all(errors)
}
