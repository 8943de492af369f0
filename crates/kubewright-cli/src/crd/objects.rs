//! Stored objects that a new definition makes invalid.

use std::error::Error;

use kubewright_client::{Client, Pager};
use kubewright_core::options::ListOptions;
use kubewright_core::{GroupVersionResource, Object, Value};
use kubewright_schema::Schema;

use super::definitions::{name_of, schema_of, stored, versions};

/// The problems of stored objects, as sentences. Objects are read in the version in which the new
/// definition stores them, or if the cluster does not serve it yet, in the old stored version.
pub async fn invalidated(client: &Client, old: &Value, new: &Value) -> Result<Vec<String>, Box<dyn Error>> {
    let served = versions(old);
    let is_served = |version: &&Value| served.iter().any(|other| name_of(other) == name_of(version));
    let Some(version) = stored(new).filter(is_served).or_else(|| stored(old)) else { return Ok(Vec::new()) };
    let after = versions(new).into_iter().find(|other| name_of(other) == name_of(version));
    let Some(definition) = after.and_then(schema_of) else { return Ok(Vec::new()) };
    let schema = Schema::parse(definition);
    let name = |part: &str| {
        let name = match part {
            "group" => old.get("spec").and_then(|spec| spec.get("group")),
            part => old.get("spec").and_then(|spec| spec.get("names")?.get(part)),
        };
        name.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let resource = GroupVersionResource::new(name("group"), name_of(version), name("plural"));
    let kind = name("kind");
    let mut problems = Vec::new();
    let mut objects = Pager::new(client.dynamic(resource)).each(ListOptions::default());
    while let Some(object) = objects.next().await {
        let object = object?;
        let mut tree = Value::from_json(&object.to_json())?;
        let whose = format!("{kind} {} in version {}", object.key(), name_of(version));
        for field in schema.prune_and_default(&mut tree) {
            problems.push(format!("{whose}: {field} would be removed"));
        }
        for cause in schema.validate(&tree, None).causes {
            let (field, message) = (cause.field.unwrap_or_default(), cause.message.unwrap_or_default());
            problems.push(format!("{whose}: {field}: {message}"));
        }
    }
    Ok(problems)
}
