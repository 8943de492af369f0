//! One object: its YAML, its versions with differences, its reconciles and its relatives.

use hyper::StatusCode;
use kubewright_client::Api;
use kubewright_client::discovery::RestMapping;
use kubewright_core::{AllNamespaces, DynamicObject, NamespaceScope, Object, ObjectKey, Value};
use kubewright_runtime::object_history::{ObjectHistory, ObjectVersion};
use serde::Serialize;

use crate::observed::ObservedReconcile;
use crate::owners::{OwnerTree, Relative};
use crate::refusal::Refusal;
use crate::secret_fields::LAST_APPLIED;
use crate::server::LiveProgram;

/// The object that the page asks for.
pub(crate) struct ObjectRequest {
    /// A resource, in any form that kubectl takes: `deployments`, `deploy`, `Deployment.apps`.
    pub(crate) resource: String,
    /// `namespace/name`, or a name.
    pub(crate) key: String,
}

/// An object as the page shows it.
#[derive(Debug, Serialize)]
pub(crate) struct ObjectView {
    kind: String,
    resource: String,
    key: String,
    /// `None` if the object does not exist any more.
    yaml: Option<String>,
    versions: Vec<ShownVersion>,
    events: Vec<String>,
    reconciles: Vec<ObservedReconcile>,
    /// The root of the owner tree.
    tree: Option<Relative>,
}

#[derive(Debug, Serialize)]
struct ShownVersion {
    version: String,
    change: &'static str,
    writers: Vec<String>,
    differences: Vec<String>,
}

impl ShownVersion {
    fn new(kind: &str, version: ObjectVersion) -> Self {
        let ObjectVersion { version, change, writers, differences, .. } = version;
        let differences = differences.into_iter().map(|difference| shown(kind, difference)).collect();
        ShownVersion { version, change, writers, differences }
    }
}

/// An object with the resource that it was found by.
pub(crate) struct Located {
    pub(crate) mapping: RestMapping,
    pub(crate) key: ObjectKey,
    pub(crate) objects: Api<DynamicObject>,
}

impl ObjectRequest {
    /// Finds the resource, in the names that the server serves.
    pub(crate) async fn locate(&self, service: &LiveProgram) -> Result<Located, Refusal> {
        let key: ObjectKey = self
            .key
            .parse()
            .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, format!("{:?} is no key: {error}", self.key)))?;
        let mapping = service.mapper.find(&self.resource).await?;
        let scope = match key.namespace().as_str() {
            "" => NamespaceScope::from(AllNamespaces),
            namespace => NamespaceScope::from(namespace),
        };
        let objects = mapping.api(&service.client, scope);
        Ok(Located { mapping, key, objects })
    }
}

impl ObjectView {
    pub(crate) async fn read(service: &LiveProgram, wanted: &ObjectRequest) -> Result<Self, Refusal> {
        let Located { mapping, key, objects } = wanted.locate(service).await?;
        let object = objects.get_opt(key.name()).await?;
        let history = ObjectHistory::read(&objects, &mapping.kind.kind, key.name()).await;
        let tree = match &object {
            Some(object) => OwnerTree::around(service, object).await,
            None => None,
        };
        Ok(ObjectView {
            kind: mapping.kind.kind.to_string(),
            resource: mapping.resource.group_resource().to_string(),
            yaml: object.as_ref().map(yaml_of),
            versions: history
                .versions
                .into_iter()
                .rev()
                .map(|version| ShownVersion::new(&mapping.kind.kind, version))
                .collect(),
            events: history.events,
            reconciles: service.observed.sender().of_key(&key.to_string()),
            tree,
            key: key.to_string(),
        })
    }
}

/// The object without managed fields. The contents of Secrets are not shown.
fn yaml_of(object: &DynamicObject) -> String {
    let mut object = object.clone();
    object.metadata.managed_fields = Default::default();
    if object.kind == "Secret" {
        object.metadata.annotations.remove(LAST_APPLIED);
        for field in ["data", "stringData"] {
            if object.get(&[field]).is_some() {
                // The path has one part and the object is a map, so that it can be set.
                let _ = object.set(&[field], "<redacted>");
            }
        }
    }
    let mut yaml = String::new();
    let value = Value::from_json(&object.to_json()).unwrap_or_default();
    kubewright_yaml::write(&value, &mut yaml);
    yaml
}

/// A changed field, such as `~ data.key: 1 → 2`, without its values if they are secret.
fn shown(kind: &str, difference: String) -> String {
    let Some((path, _)) = difference.split_once(": ").filter(|_| kind == "Secret") else { return difference };
    let is_secret =
        ["data", "stringData"].iter().any(|field| path[2..].starts_with(field)) || path.contains(LAST_APPLIED);
    if is_secret { format!("{path}: <redacted>") } else { difference }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_secrets_are_not_shown() {
        let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"b",
            "kubectl.kubernetes.io/last-applied-configuration":"aGlkZGVu"}},"data":{"key":"aGlkZGVu"}}"#;
        let object: DynamicObject = secret.parse().expect("an object");
        let yaml = yaml_of(&object);
        assert!(yaml.contains("data: <redacted>") && yaml.contains("a: b"), "{yaml}");
        assert!(!yaml.contains("aGlkZGVu"), "{yaml}");
        let line = |text: &str| shown("Secret", text.to_owned());
        assert_eq!(line(r#"~ data.key: "a" → "b""#), "~ data.key: <redacted>");
        assert_eq!(line("+ metadata.labels.a: 1"), "+ metadata.labels.a: 1");
        let annotation = format!("+ metadata.annotations.{LAST_APPLIED}: x");
        assert_eq!(line(&annotation), format!("+ metadata.annotations.{LAST_APPLIED}: <redacted>"));
        assert_eq!(shown("ConfigMap", "+ data.key: 1".to_owned()), "+ data.key: 1");
    }
}
