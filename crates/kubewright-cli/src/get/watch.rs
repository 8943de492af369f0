//! `kubewright watch`: prints objects, then each change.

use std::error::Error;

use kubewright_core::Value;

use super::{GetCommandOptions, Output, format};
use crate::output::print;
use crate::selection::Selected;
use crate::table::Table;

/// Prints objects, then each change, until the server or the user ends it.
///
/// The list comes first, so that the columns of a table are as wide as its objects need.
pub async fn watch(options: &GetCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let selected = options.selection.resolve(&client, &options.arguments).await?;
    let [one] = &selected[..] else {
        return Err("you may only specify a single resource type".into());
    };
    // Only collections can be watched: a watch request for one object returns it.
    let field_selector = match &one.names[..] {
        [] => None,
        [name] => Some(format!("metadata.name={name}")),
        [..] => return Err("only one object, or all of a resource, can be watched".into()),
    };
    let collection = || {
        let request = options.collection(&client, &one.mapping);
        match &field_selector {
            Some(selector) => request.parameter("fieldSelector", selector),
            None => request,
        }
    };
    let mut printer = Printer { options, selected: one, table: options.table(one) };
    let list = options.send(collection()).await?;
    let version = list.get("metadata").and_then(|metadata| metadata.get("resourceVersion")?.as_str());
    let version = version.unwrap_or_default().to_owned();
    printer.print(list)?;
    let request = collection().parameter("watch", "true").parameter("resourceVersion", version);
    let mut body = request.stream().await?.into_body();
    let mut rest = Vec::new();
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
            printer.print(object)?;
        }
    }
    Ok(())
}

/// Prints lists and objects as they arrive.
struct Printer<'a> {
    options: &'a GetCommandOptions,
    selected: &'a Selected,
    table: Table,
}

impl Printer<'_> {
    /// Prints a table, the items of a list, or one object.
    fn print(&mut self, response: Value) -> Result<(), Box<dyn Error>> {
        if self.options.is_table() {
            self.table.add(&response);
            return Ok(self.table.print_new()?);
        }
        for object in format::objects(response, &self.selected.mapping) {
            let objects = vec![(&self.selected.mapping, self.options.shown(object))];
            // Several YAML documents are a stream.
            let separator = if self.options.output == Some(Output::Yaml) { "---\n" } else { "" };
            print(format!("{separator}{}", format::text(self.options.output, objects, true)))?;
        }
        Ok(())
    }
}
