//! `kubewright get` and `kubewright watch`: prints objects as server-side tables.

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

/// Accepts server-side tables, or objects if there are none.
const TABLES: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Selection and output of objects.
#[derive(Debug, Args)]
pub struct GetCommandOptions {
    /// The resource: `pods`, `po`, `deployments.apps`, a kind; or an object, such as `pod/web`.
    resource: String,
    /// The name of one object.
    name: Option<String>,
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Objects of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects that match this label selector.
    #[arg(long, short = 'l')]
    selector: Option<Selector>,
    /// The output format; a table by default.
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    connection: Connection,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// JSON as the server sends it.
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
    let (resource, name) = options.asked()?;
    let mapping = mapping(&client, resource).await?;
    let mut request = options.collection(&client, &mapping);
    if let Some(name) = name {
        request = request.name(name);
    }
    if !options.is_table() {
        let answer = Value::from_json(&request.send().await?.bytes())?;
        return Ok(print(options.text(&answer, &mapping))?);
    }
    let answer = request.header(ACCEPT, TABLES).send().await?;
    let mut table = Table::of_server(options.output == Some(Output::Wide));
    options.show(&Value::from_json(&answer.bytes())?, &mapping, &mut table);
    if table.is_empty() {
        options.say_nothing_found(&client, &mapping);
        return Ok(());
    }
    Ok(table.print()?)
}

/// Prints objects, then each change, until the server or the user ends it.
pub async fn watch(options: &GetCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let (resource, name) = options.asked()?;
    let mapping = mapping(&client, resource).await?;
    let mut request = options.collection(&client, &mapping).parameter("watch", "true");
    if options.is_table() {
        request = request.header(ACCEPT, TABLES);
    }
    // Only collections can be watched: a request for one object returns it.
    if let Some(name) = name {
        request = request.parameter("fieldSelector", format!("metadata.name={name}"));
    }
    let mut body = request.stream().await?.into_body();
    let (mut rest, mut table) = (Vec::new(), Table::of_server(options.output == Some(Output::Wide)));
    while let Some(chunk) = body.chunk().await? {
        rest.extend_from_slice(&chunk);
        // Events are newline-delimited.
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event = Value::from_json(&line)?;
            let object = event.get("object").cloned().unwrap_or_default();
            if event.get("type").and_then(Value::as_str) == Some("ERROR") {
                return Err(object.get("message").and_then(Value::as_str).unwrap_or("the watch has failed").into());
            }
            match options.output {
                None | Some(Output::Wide) => {
                    options.show(&object, &mapping, &mut table);
                    table.print_new()?;
                }
                // A YAML stream of documents.
                Some(Output::Yaml) => print(format!("---\n{}", options.text(&object, &mapping)))?,
                Some(Output::Json | Output::Name) => print(options.text(&object, &mapping))?,
            }
        }
    }
    Ok(())
}

impl GetCommandOptions {
    /// The namespace, or `None` for all.
    fn namespace(&self, client: &Client) -> Option<String> {
        (!self.all_namespaces).then(|| self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()))
    }

    /// The resource and an optional name: `pod web` and `pod/web` are equal.
    fn asked(&self) -> Result<(&str, Option<&str>), Box<dyn Error>> {
        let (resource, name) = match (self.resource.split_once('/'), self.name.as_deref()) {
            (None, name) => (&*self.resource, name),
            (Some((resource, name)), None) if !name.is_empty() => (resource, Some(name)),
            (Some(_), None) => return Err(format!("{:?} has no name after the slash", self.resource).into()),
            (Some(_), Some(name)) => {
                return Err(format!("{:?} names an object already, and {name:?} another", self.resource).into());
            }
        };
        if name.is_some() && self.selector.is_some() {
            return Err("name cannot be provided when a selector is specified".into());
        }
        if name.is_some() && self.all_namespaces {
            return Err("a resource cannot be retrieved by name across all namespaces".into());
        }
        Ok((resource, name))
    }

    /// A request for all matching objects.
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

    fn is_table(&self) -> bool {
        matches!(self.output, None | Some(Output::Wide))
    }

    /// An object or list in an output format other than a table.
    fn text(&self, answer: &Value, mapping: &RestMapping) -> String {
        let mut text = String::new();
        match self.output {
            Some(Output::Yaml) => yaml::write(answer, &mut text),
            Some(Output::Name) => {
                let one = std::slice::from_ref(answer);
                let objects = answer.get("items").and_then(Value::as_array).map_or(one, |items| &items[..]);
                for object in objects {
                    let name = object.get("metadata").and_then(|metadata| metadata.get("name")?.as_str());
                    text += &format!("{}/{}\n", type_name(mapping), name.unwrap_or_default());
                }
            }
            _ => text = format!("{answer}\n"),
        }
        text
    }

    /// Printed on standard error, so that standard output stays empty.
    #[allow(clippy::print_stderr)]
    fn say_nothing_found(&self, client: &Client, mapping: &RestMapping) {
        match self.namespace(client).filter(|_| mapping.namespaced) {
            Some(namespace) => eprintln!("No resources found in {namespace} namespace."),
            None => eprintln!("No resources found"),
        }
    }

    fn show(&self, answer: &Value, mapping: &RestMapping, table: &mut Table) {
        table.add(answer, self.all_namespaces && mapping.namespaced);
    }
}

async fn mapping(client: &Client, resource: &str) -> Result<RestMapping, Box<dyn Error>> {
    let found = client.rest_mapper().find(resource).await;
    found.map_err(|error| {
        if error.is_not_found() {
            format!("the server doesn't have a resource type {resource:?}").into()
        } else {
            Box::<dyn Error>::from(error)
        }
    })
}

/// The type in kubectl's notation: `pod`, `deployment.apps`.
fn type_name(mapping: &RestMapping) -> String {
    let kind = mapping.kind.kind.to_lowercase();
    if mapping.kind.group.is_empty() { kind } else { format!("{kind}.{}", mapping.kind.group) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: GetCommandOptions,
    }

    #[test]
    fn a_name_excludes_selectors_and_all_namespaces() {
        let asked = |arguments: &[&str]| {
            let command = Command::parse_from([&["get"], arguments].concat());
            let asked = command.options.asked();
            asked.map(|(resource, name)| format!("{resource} {name:?}")).map_err(|error| error.to_string())
        };
        assert_eq!(asked(&["pods"]), Ok("pods None".to_owned()));
        assert_eq!(asked(&["pods", "-l", "app=web", "-A"]), Ok("pods None".to_owned()));
        assert_eq!(asked(&["pod/web", "-n", "a"]), Ok("pod Some(\"web\")".to_owned()));
        let selector = Err("name cannot be provided when a selector is specified".to_owned());
        assert_eq!(asked(&["pods", "web", "-l", "app=web"]), selector);
        assert_eq!(asked(&["pod/web", "-l", "app=web"]), selector);
        let everywhere = Err("a resource cannot be retrieved by name across all namespaces".to_owned());
        assert_eq!(asked(&["pods", "web", "-A"]), everywhere);
    }
}
