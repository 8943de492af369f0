//! `kubewright get` and `kubewright watch`: objects as the server's own tables show them.

use std::error::Error;

use clap::{Args, ValueEnum};
use http::header::ACCEPT;
use kubewright_client::Client;
use kubewright_client::discovery::RestMapping;
use kubewright_client::rest::Request;
use kubewright_core::{GroupVersion, Selector, Value, yaml};

use crate::connection::Connection;
use crate::output::print;
use crate::table::Table;

/// The server's own tables, or objects from one that has none.
const TABLES: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Which objects, and how they are shown.
#[derive(Debug, Args)]
pub struct Options {
    /// The resource: `pods`, `po`, `deployments.apps`, a kind.
    resource: String,
    /// One object instead of all.
    name: Option<String>,
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Objects of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with these labels.
    #[arg(long, short = 'l')]
    selector: Option<Selector>,
    /// How they are shown; as a table by default.
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    connection: Connection,
}

/// How objects are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// JSON as the server sends it.
    Json,
    /// YAML.
    Yaml,
    /// A table with all columns.
    Wide,
}

/// Prints objects as they are now.
pub async fn get(options: &Options) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let mapping = options.mapping(&client).await?;
    let mut request = options.collection(&client, &mapping);
    if let Some(name) = &options.name {
        request = request.name(name.as_str());
    }
    if let Some(output @ (Output::Json | Output::Yaml)) = options.output {
        let answer = request.send().await?;
        let object = Value::from_json(&answer.bytes())?;
        let mut text = String::new();
        match output {
            Output::Json => text = format!("{object}\n"),
            _ => yaml::write(&object, &mut text),
        }
        return Ok(print(text)?);
    }
    let answer = request.header(ACCEPT, TABLES).send().await?;
    let mut table = Table::of_server(options.output == Some(Output::Wide));
    options.show(&Value::from_json(&answer.bytes())?, &mapping, &mut table);
    if table.is_empty() {
        let place =
            options.namespace(&client).map_or_else(String::new, |namespace| format!(" in {namespace} namespace"));
        let place = if mapping.namespaced { place } else { String::new() };
        return Ok(print(format!("No resources found{place}.\n"))?);
    }
    Ok(table.print()?)
}

/// Prints objects, and then each change as it comes, until the server or the user ends it.
pub async fn watch(options: &Options) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let mapping = options.mapping(&client).await?;
    let mut request = options.collection(&client, &mapping).parameter("watch", "true").header(ACCEPT, TABLES);
    // Only a collection can be watched: a request for one object is answered with it, whatever else it asks for.
    if let Some(name) = &options.name {
        request = request.parameter("fieldSelector", format!("metadata.name={name}"));
    }
    let mut body = request.stream().await?.into_body();
    let (mut rest, mut table) = (Vec::new(), Table::of_server(options.output == Some(Output::Wide)));
    while let Some(chunk) = body.chunk().await? {
        rest.extend_from_slice(&chunk);
        // Events are lines.
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event = Value::from_json(&line)?;
            let object = event.get("object").cloned().unwrap_or_default();
            if event.get("type").and_then(Value::as_str) == Some("ERROR") {
                return Err(object.get("message").and_then(Value::as_str).unwrap_or("the watch has failed").into());
            }
            options.show(&object, &mapping, &mut table);
            table.print_new()?;
        }
    }
    Ok(())
}

impl Options {
    /// The namespace that is asked, or none for all.
    fn namespace(&self, client: &Client) -> Option<String> {
        (!self.all_namespaces).then(|| self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()))
    }

    async fn mapping(&self, client: &Client) -> Result<RestMapping, Box<dyn Error>> {
        let found = client.rest_mapper().find(&self.resource).await;
        found.map_err(|error| match error.is_not_found() {
            true => format!("the server doesn't have a resource type {:?}", self.resource).into(),
            false => Box::<dyn Error>::from(error),
        })
    }

    /// Asks for all objects that have the labels.
    fn collection(&self, client: &Client, mapping: &RestMapping) -> Request<'static> {
        let resource = &mapping.resource;
        let version = GroupVersion::new(resource.group.clone(), resource.version.clone());
        let mut request = client.rest().group_version(version).get().resource(resource.resource.clone());
        if mapping.namespaced
            && let Some(namespace) = self.namespace(client)
        {
            request = request.namespace(namespace);
        }
        if let Some(selector) = &self.selector {
            request = request.parameter("labelSelector", selector);
        }
        request
    }

    fn show(&self, answer: &Value, mapping: &RestMapping, table: &mut Table) {
        table.add(answer, self.all_namespaces && mapping.namespaced);
    }
}
