//! The history of an object: its versions with their differences, and the events about it.

use std::fmt;
use std::time::Duration;

use kubewright_api::core::v1::Event;
use kubewright_client::{Api, Client, Scope};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{DynamicObject, FieldSelector, Map, Object, ObjectKey, Value};
use tokio::time::timeout;

/// Maximum number of lines for one version.
const MAX_LINES: usize = 40;

/// How long to wait for the next version, when all are already in the log of the server.
const LOG_TIMEOUT: Duration = Duration::from_millis(200);

/// Fields that every write changes.
const NOISE: [&str; 3] = ["metadata.managedFields", "metadata.resourceVersion", "metadata.generation"];

/// The versions of an object since the start of the server, with their differences and writers, and
/// the events about it. Prints as text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObjectHistory {
    /// Kind, namespace and name.
    pub object: String,
    /// The versions, oldest first.
    pub versions: Vec<ObjectVersion>,
    /// The events about the object, such as `Warning FailedCreate: …`.
    pub events: Vec<String>,
}

/// One version of an object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObjectVersion {
    /// Its `resourceVersion`.
    pub version: String,
    /// `created`, `updated` or `deleted`.
    pub change: &'static str,
    /// The field managers that wrote it, such as `manager (Update status)`.
    pub writers: Vec<String>,
    /// Changed fields, such as `spec.replicas: 1 → 2`.
    pub differences: Vec<String>,
}

impl ObjectHistory {
    /// Reads the history of the object `name` from the event log of its server. `kind` is the kind
    /// of the objects.
    ///
    /// An embedded server remembers its latest 10,000 changes, and kube-apiserver those of about
    /// five minutes.
    pub async fn read(objects: &Api<DynamicObject>, kind: &str, name: &str) -> Self {
        let namespace = match objects.scope() {
            Scope::Namespace(namespace) => namespace.as_str(),
            _ => "",
        };
        let key = ObjectKey::namespaced(namespace, name);
        let (mut versions, mut before) = (Vec::new(), Value::Null);
        for change in all_changes(objects).await {
            let (change, object) = match change {
                WatchEvent::Added(object) => ("created", object),
                WatchEvent::Modified(object) => ("updated", object),
                WatchEvent::Deleted(object) => ("deleted", object),
                _ => continue,
            };
            if object.name() == name {
                let after = Value::from_json(&object.to_json()).unwrap_or_default();
                let differences = differences(&before, &after);
                versions.push(ObjectVersion {
                    version: object.resource_version().to_owned(),
                    change,
                    writers: writers(&before, &after, &differences),
                    differences: lines(differences),
                });
                before = if change == "deleted" { Value::Null } else { after };
            }
        }
        let events = events_about(objects.client(), kind, namespace, name).await;
        ObjectHistory { object: format!("{kind} {key}"), versions, events }
    }
}

async fn events_about(client: &Client, kind: &str, namespace: &str, name: &str) -> Vec<String> {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let about = FieldSelector::everything().equals("involvedObject.kind", kind).equals("involvedObject.name", name);
    let options = ListOptions { field_selector: about, ..ListOptions::default() };
    let events = Api::<Event>::namespaced(client, namespace).list(&options).await;
    let text = |event: &Event| {
        let part = |text: &Option<kubewright_core::Str>| text.as_deref().unwrap_or_default().to_owned();
        let times = event.count.filter(|count| *count > 1).map(|count| format!(" ({count} times)"));
        let (kind, reason, message) = (part(&event.type_), part(&event.reason), part(&event.message));
        format!("{kind} {reason}: {message}{}", times.unwrap_or_default())
    };
    events.map(|events| events.items.iter().map(text).collect()).unwrap_or_default()
}

/// All changes that the server remembers.
async fn all_changes(objects: &Api<DynamicObject>) -> Vec<WatchEvent<DynamicObject>> {
    let (mut found, mut version) = (Vec::new(), "1".to_owned());
    // Older changes may be evicted after their version was read.
    for _ in 0..3 {
        let options = WatchOptions { resource_version: Some(version.as_str().into()), ..WatchOptions::default() };
        let Ok(mut changes) = objects.watch(&options).await else { return found };
        let mut oldest = None;
        while let Ok(Some(Ok(change))) = timeout(LOG_TIMEOUT, changes.next()).await {
            match change {
                WatchEvent::Error(status) => {
                    oldest = status.message.as_deref().and_then(oldest_version).map(str::to_owned)
                }
                change => found.push(change),
            }
        }
        match oldest {
            Some(oldest) => version = oldest,
            None => break,
        }
    }
    found
}

/// The oldest version in the message `too old resource version: 1 (1234)`.
fn oldest_version(message: &str) -> Option<&str> {
    message.strip_suffix(')')?.rsplit_once('(').map(|(_, version)| version)
}

/// The managers that wrote a version: those whose entries have changed. A manager that writes its
/// own fields twice in a second has equal entries. The owners of the changed fields are then
/// returned.
fn writers(before: &Value, after: &Value, changed: &[Difference]) -> Vec<String> {
    let entries = |object: &Value| -> Vec<Value> {
        let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
        entries.map(|entries| entries.to_vec()).unwrap_or_default()
    };
    let (old, mut new) = (entries(before), entries(after));
    if new.iter().any(|entry| !old.contains(entry)) {
        new.retain(|entry| !old.contains(entry));
    } else {
        new.retain(|entry| changed.iter().any(|difference| owns(entry, &difference.path)));
    }
    let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let describe = |entry: &Value| {
        let how = format!("{} {}", text(entry, "operation"), text(entry, "subresource"));
        format!("{} ({})", text(entry, "manager"), how.trim())
    };
    new.iter().map(describe).collect()
}

/// Whether an entry of managed fields has this path, or the list that it leads into.
fn owns(entry: &Value, path: &[String]) -> bool {
    let mut fields = entry.get("fieldsV1");
    for part in path {
        if part.starts_with('[') {
            break;
        }
        fields = fields.and_then(|fields| fields.get(&format!("f:{part}")));
    }
    fields.is_some()
}

/// A changed field.
struct Difference {
    path: Vec<String>,
    text: String,
}

/// The changed fields with their values.
fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), before, after, &mut found);
    found
}

/// The changed fields of two objects, one line each, with `-`, `+` or `~` before the path. Fields
/// that every write changes are left out, and so are lines after the fortieth.
pub fn changed_lines(before: &Value, after: &Value) -> Vec<String> {
    lines(differences(before, after))
}

/// One line for each difference, up to a limit.
fn lines(differences: Vec<Difference>) -> Vec<String> {
    let more = differences.len().saturating_sub(MAX_LINES);
    let lines = differences.into_iter().take(MAX_LINES).map(|difference| difference.text);
    lines.chain((more > 0).then(|| format!("… and {more} more"))).collect()
}

fn compare(path: &mut Vec<String>, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    let text = path.join(".").replace(".[", "[");
    if before == after || NOISE.contains(&&*text) {
        return;
    }
    let empty = Map::new();
    let is_tree = |value: &Value| value.as_object().is_some() || value.is_null();
    if is_tree(before) && is_tree(after) {
        let (old, new) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
        let mut keys: Vec<&str> = old.iter().chain(new.iter()).map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            path.push(key.to_owned());
            compare(path, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), found);
            path.pop();
        }
    } else if let (Some(old), Some(new)) = (before.as_array(), after.as_array()) {
        for index in 0..old.len().max(new.len()) {
            path.push(format!("[{index}]"));
            compare(path, old.get(index).unwrap_or(&Value::Null), new.get(index).unwrap_or(&Value::Null), found);
            path.pop();
        }
    } else {
        let text = match (before.is_null(), after.is_null()) {
            (true, _) => format!("+ {text}: {after}"),
            (_, true) => format!("- {text}: {before}"),
            _ => format!("~ {text}: {before} → {after}"),
        };
        found.push(Difference { path: path.clone(), text });
    }
}

impl fmt::Display for ObjectHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "history of {}:", self.object)?;
        if self.versions.is_empty() {
            writeln!(f, "  it has never existed")?;
        }
        for version in &self.versions {
            let writers = if version.writers.is_empty() { "unknown".to_owned() } else { version.writers.join(", ") };
            writeln!(f, "  version {}: {} by {writers}", version.version, version.change)?;
            for difference in &version.differences {
                writeln!(f, "    {difference}")?;
            }
        }
        for event in &self.events {
            writeln!(f, "  event: {event}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_changed_fields() {
        let value = |text: &str| Value::from_json(text.as_bytes()).unwrap();
        let before = value(r#"{"metadata":{"resourceVersion":"1"},"spec":{"a":1,"list":["x"],"gone":{"b":true}}}"#);
        let after = value(r#"{"metadata":{"resourceVersion":"2"},"spec":{"a":2,"list":["x","y"],"new":{"c":"d"}}}"#);
        let found = lines(differences(&before, &after));
        let wanted = ["~ spec.a: 1 → 2", "- spec.gone.b: true", "+ spec.list[1]: \"y\"", "+ spec.new.c: \"d\""];
        assert_eq!(found, wanted);
    }
}
