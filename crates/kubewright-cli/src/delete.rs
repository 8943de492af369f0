//! `kubewright delete`: deletes objects, and waits until they are gone.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kubewright_client::discovery::{RestMapper, RestMapping};
use kubewright_client::{Api, Client};
use kubewright_core::options::{DeleteOptions, ListOptions, PropagationPolicy};
use kubewright_core::{DynamicObject, Object};

use crate::connection::Connection;
use crate::get::format::type_name;
use crate::output::print;
use crate::selection::Selection;
use crate::{failure, manifests};

pub const HELP: &str = "\
Examples:
  kubewright delete pod web-0
  kubewright delete deployment/web svc/web
  kubewright delete pods -l app=web
  kubewright delete -f manifests/";

/// How often an object is read while it is being deleted.
const POLL: Duration = Duration::from_millis(100);

/// The objects, and how they are deleted.
#[derive(Debug, Args)]
pub struct DeleteCommandOptions {
    /// Resources and names: `pod web db` or `pod/web svc/web`.
    #[arg(
        required_unless_present = "files",
        conflicts_with = "files",
        value_name = "RESOURCE [NAME]... | RESOURCE/NAME"
    )]
    arguments: Vec<String>,
    /// The objects of a file of YAML or JSON, of a directory of them, or of standard input (`-`).
    /// May be repeated.
    #[arg(long = "filename", short = 'f', id = "files", value_name = "FILE | DIR")]
    files: Vec<PathBuf>,
    /// All objects of the resources.
    #[arg(long, conflicts_with = "selector")]
    all: bool,
    #[command(flatten)]
    selection: Selection,
    /// Objects that do not exist count as deleted.
    #[arg(long)]
    ignore_not_found: bool,
    /// Waits until the objects are gone.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    wait: bool,
    /// Seconds that a pod has to end; 1 for as soon as possible.
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<i64>,
    /// Whether dependents, such as the pods of a replica set, are deleted too.
    #[arg(long, value_enum, default_value_t = Cascade::Background)]
    cascade: Cascade,
    #[command(flatten)]
    connection: Connection,
}

/// The fate of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Cascade {
    /// They are deleted after their owner.
    Background,
    /// They are deleted before their owner.
    Foreground,
    /// They stay.
    Orphan,
}

/// An object that is being deleted.
struct Deletion {
    api: Api<DynamicObject>,
    name: String,
    uid: Option<String>,
}

/// Deletes the objects. A failed one does not stop the others.
pub async fn delete(options: &DeleteCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let (mut deletions, mut errors) = (Vec::new(), Vec::new());
    for (mapping, api, name) in options.targets(&client).await? {
        match api.delete_with(&name, &options.delete_options()).await {
            Ok(response) => {
                print(format!("{} {name:?} deleted\n", type_name(&mapping)))?;
                deletions.push(Deletion { uid: response.uid().map(str::to_owned), api, name });
            }
            Err(error) if error.is_not_found() && options.ignores_missing() => {}
            Err(error) => errors.push(error.into()),
        }
    }
    if options.wait {
        for deletion in &deletions {
            deletion.wait().await?;
        }
    }
    failure::all(errors)
}

impl DeleteCommandOptions {
    /// A selector names no object, so one that is gone meanwhile is no error.
    fn ignores_missing(&self) -> bool {
        self.ignore_not_found || self.all || self.selection.selector.is_some()
    }

    fn delete_options(&self) -> DeleteOptions {
        let policy = match self.cascade {
            Cascade::Background => PropagationPolicy::Background,
            Cascade::Foreground => PropagationPolicy::Foreground,
            Cascade::Orphan => PropagationPolicy::Orphan,
        };
        DeleteOptions {
            grace_period_seconds: self.grace_period,
            propagation_policy: Some(policy),
            ..DeleteOptions::default()
        }
    }

    /// The names of the objects, with the APIs that delete them.
    async fn targets(&self, client: &Client) -> Result<Vec<(RestMapping, Api<DynamicObject>, String)>, Box<dyn Error>> {
        if !self.files.is_empty() {
            return self.targets_in_files(client).await;
        }
        let is_collection = self.all || self.selection.selector.is_some();
        let mut targets = Vec::new();
        for one in self.selection.resolve(client, &self.arguments).await? {
            if !one.names.is_empty() {
                if self.all {
                    return Err("a name cannot be given together with --all".into());
                }
                let namespace = self.selection.namespace(client).unwrap_or_default();
                let api = one.mapping.api(client, namespace);
                targets.extend(one.names.into_iter().map(|name| (one.mapping.clone(), api.clone(), name)));
                continue;
            }
            if !is_collection {
                return Err("a resource is given without a name; add names, -l SELECTOR or --all".into());
            }
            let scope = match self.selection.namespace(client) {
                Some(namespace) => one.mapping.api(client, namespace),
                None => client.dynamic(one.mapping.resource.clone()),
            };
            let mut list = ListOptions::default();
            if let Some(selector) = &self.selection.selector {
                list = list.labels(selector.clone());
            }
            for object in scope.list(&list).await?.items {
                let api = one.mapping.api(client, object.namespace().to_owned());
                targets.push((one.mapping.clone(), api, object.name().to_owned()));
            }
        }
        if targets.is_empty() {
            print("No resources found\n")?;
        }
        Ok(targets)
    }

    /// The objects of manifests, in the reverse of the order in which they are applied.
    async fn targets_in_files(
        &self,
        client: &Client,
    ) -> Result<Vec<(RestMapping, Api<DynamicObject>, String)>, Box<dyn Error>> {
        let mapper: RestMapper = client.rest_mapper();
        let mut targets = Vec::new();
        for object in manifests::read_all(&self.files)?.into_iter().rev() {
            let kind = object.group_version_kind();
            let mapping = match mapper.kind(&kind.group_kind(), &[&kind.version]).await {
                // The definition is gone, and its objects with it.
                Err(error) if error.is_not_found() && self.ignore_not_found => continue,
                found => found?,
            };
            let namespace = match object.namespace() {
                "" => self.selection.namespace(client).unwrap_or_default(),
                own => own.to_owned(),
            };
            let api = mapping.api(client, namespace);
            targets.push((mapping, api, object.name().to_owned()));
        }
        Ok(targets)
    }
}

impl Deletion {
    /// Waits until the object is gone. A new object of the same name is another one.
    async fn wait(&self) -> Result<(), Box<dyn Error>> {
        while let Some(object) = self.api.get_opt(&self.name).await? {
            if self.uid.as_deref().is_some_and(|uid| uid != object.uid()) {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
