//! `kubewright get` and `kubewright watch`: prints objects as server-side tables, JSON or YAML.
//!
//! Arguments and output follow kubectl. [`format`] writes JSON, YAML and names, [`watch`] follows
//! changes.

pub mod format;
mod watch;

use std::error::Error;

use clap::{Args, ValueEnum};
use http::header::ACCEPT;
use kubewright_client::Client;
use kubewright_client::discovery::RestMapping;
use kubewright_client::rest::Request;
use kubewright_core::{GroupVersion, Value};

use crate::connection::Connection;
use crate::failure;
use crate::output::print;
use crate::selection::{Selected, Selection};
use crate::table::Table;
pub use watch::watch;

/// Accepts server-side tables, or objects if there are none.
const TABLES: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Selection and output of objects.
#[derive(Debug, Args)]
pub struct GetCommandOptions {
    /// Resources and names: `pods`, `pods,svc`, `all`, `deployments.apps`, a kind, `pod web db` or
    /// `pod/web svc/web`.
    #[arg(required = true, value_name = "RESOURCE [NAME]... | RESOURCE/NAME")]
    arguments: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// The output format; a table by default.
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Includes managedFields in JSON and YAML.
    #[arg(long)]
    show_managed_fields: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// A table with all columns.
    Wide,
    /// Names only, such as `pod/web`.
    Name,
}

/// Prints the current objects.
pub async fn get(options: &GetCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let selected = options.selection.resolve(&client, &options.arguments).await?;
    let mut errors = Vec::new();
    let mut responses = Vec::new();
    for one in &selected {
        for request in options.requests(&client, one) {
            match options.send(request).await {
                Ok(response) => responses.push((one, response)),
                Err(error) if is_answer(&*error) => errors.push(error),
                Err(error) => return Err(error),
            }
        }
    }
    if options.is_table() {
        let is_empty = print_tables(options, &selected, &responses)?;
        if is_empty && errors.is_empty() {
            say_nothing_found(options, &client, &selected);
        }
    } else {
        let mut objects = Vec::new();
        for (one, response) in responses {
            let found = format::objects(response, &one.mapping).into_iter();
            objects.extend(found.map(|object| (&one.mapping, options.shown(object))));
        }
        let is_single = matches!(&selected[..], [one] if one.names.len() == 1);
        if errors.is_empty() || !objects.is_empty() {
            print(format::text(options.output, objects, is_single))?;
        }
    }
    failure::all(errors)
}

/// Whether the server has sent this error. Then it may still have other objects.
fn is_answer(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<kubewright_client::Error>().is_some_and(|error| error.status().is_some())
}

/// Prints a table for each resource that has objects. Returns whether there was none.
fn print_tables(
    options: &GetCommandOptions,
    selected: &[Selected],
    responses: &[(&Selected, Value)],
) -> Result<bool, Box<dyn Error>> {
    let mut is_empty = true;
    for one in selected {
        let mut table = options.table(one);
        if selected.len() > 1 {
            table = table.with_type(format::type_name(&one.mapping));
        }
        for (_, response) in responses.iter().filter(|(of, _)| std::ptr::eq(*of, one)) {
            table.add(response);
        }
        if table.is_empty() {
            continue;
        }
        if !std::mem::replace(&mut is_empty, false) {
            print("\n")?;
        }
        table.print()?;
    }
    Ok(is_empty)
}

/// Printed on standard error, so that standard output stays empty.
#[allow(clippy::print_stderr)]
fn say_nothing_found(options: &GetCommandOptions, client: &Client, selected: &[Selected]) {
    match options.selection.namespace(client).filter(|_| selected.iter().all(|one| one.mapping.namespaced)) {
        Some(namespace) => eprintln!("No resources found in {namespace} namespace."),
        None => eprintln!("No resources found"),
    }
}

impl GetCommandOptions {
    /// The requests for the selected objects: one for each name, or one for the collection.
    fn requests(&self, client: &Client, selected: &Selected) -> Vec<Request<'static>> {
        let collection = || self.collection(client, &selected.mapping);
        if selected.names.is_empty() {
            return vec![collection()];
        }
        selected.names.iter().map(|name| collection().name(name.as_str())).collect()
    }

    /// A request for all matching objects.
    fn collection(&self, client: &Client, mapping: &RestMapping) -> Request<'static> {
        let resource = &mapping.resource;
        let version = GroupVersion::new(resource.group.clone(), resource.version.clone());
        let mut request = client.rest().group_version(version).get().resource(resource.resource.clone());
        if mapping.namespaced
            && let Some(namespace) = self.selection.namespace(client)
        {
            request = request.namespace(namespace);
        }
        if let Some(selector) = &self.selection.selector {
            request = request.parameter("labelSelector", selector);
        }
        if self.is_table() { request.header(ACCEPT, TABLES) } else { request }
    }

    async fn send(&self, request: Request<'static>) -> Result<Value, Box<dyn Error>> {
        Ok(Value::from_json(&request.send().await?.bytes())?)
    }

    fn is_table(&self) -> bool {
        matches!(self.output, None | Some(Output::Wide))
    }

    /// An empty table for the objects of a resource.
    fn table(&self, selected: &Selected) -> Table {
        let table = Table::of_server(self.output == Some(Output::Wide));
        if self.selection.all_namespaces && selected.mapping.namespaced { table.with_namespaces() } else { table }
    }

    /// The object as JSON and YAML show it.
    fn shown(&self, mut object: Value) -> Value {
        if !self.show_managed_fields
            && let Some(metadata) =
                object.as_object_mut().and_then(|fields| fields.get_mut("metadata")?.as_object_mut())
        {
            metadata.remove("managedFields");
        }
        object
    }
}
