//! Writes that the page asks for: apply, scale, cordon and delete.

use hyper::StatusCode;
use kubewright_client::ScaleApi;
use kubewright_core::options::{ApplyOptions, Patch, PatchOptions, PatchType};
use kubewright_core::{AllNamespaces, NamespaceScope, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object_view::{Located, ObjectRequest};
use crate::server::{DashboardService, Refusal};

/// The field manager of applied manifests.
const FIELD_MANAGER: &str = "kubewright-dashboard";

/// A write.
pub(crate) enum Action {
    /// Applies the objects of a manifest on the server's side.
    Apply(String),
    /// Sets the number of replicas.
    Scale(ObjectRequest, i32),
    /// Makes a node schedulable or not.
    Cordon(ObjectRequest, bool),
    /// Deletes an object.
    Delete(ObjectRequest),
}

/// The body of an action on an object.
#[derive(Deserialize)]
struct Target {
    resource: String,
    key: String,
    replicas: Option<i32>,
    cordoned: Option<bool>,
}

/// The result of an action, for the user.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    message: String,
}

impl Action {
    /// The action of this name. The body is YAML for `apply`, and JSON for the others.
    pub(crate) fn parse(name: &str, body: &[u8]) -> Result<Self, Refusal> {
        let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
        if name == "apply" {
            let text = std::str::from_utf8(body).map_err(|_| bad("the manifest is not UTF-8".to_owned()))?;
            return Ok(Action::Apply(text.to_owned()));
        }
        let target: Target =
            serde_json::from_slice(body).map_err(|error| bad(format!("the action cannot be read: {error}")))?;
        let Target { resource, key, replicas, cordoned } = target;
        let object = ObjectRequest { resource, key };
        match (name, replicas, cordoned) {
            ("delete", _, _) => Ok(Action::Delete(object)),
            ("scale", Some(replicas @ 0..), _) => Ok(Action::Scale(object, replicas)),
            ("scale", _, _) => Err(bad("scale needs replicas, a number of at least 0".to_owned())),
            ("cordon", _, Some(cordoned)) => Ok(Action::Cordon(object, cordoned)),
            ("cordon", _, None) => Err(bad("cordon needs cordoned, true or false".to_owned())),
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no action {name:?}"))),
        }
    }

    pub(crate) async fn perform(self, service: &DashboardService) -> Result<Done, Refusal> {
        let message = match self {
            Action::Apply(manifest) => apply(service, &manifest).await?,
            Action::Scale(object, replicas) => {
                let Located { mapping, key, .. } = object.locate(service).await?;
                let scales = ScaleApi::new(&service.client, service.mapper.clone(), namespace_of(key.namespace()));
                let patch = merge_patch(&serde_json::json!({"spec": {"replicas": replicas}}));
                scales.patch(mapping.resource, key.name(), patch, &PatchOptions::default()).await?;
                format!("{key} has {replicas} replicas")
            }
            Action::Cordon(object, cordoned) => {
                let Located { mapping, key, objects } = object.locate(service).await?;
                if mapping.resource.resource != "nodes" {
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, "only nodes can be cordoned"));
                }
                let unschedulable: Value = if cordoned { true.into() } else { Value::Null };
                let patch = merge_patch(&serde_json::json!({"spec": {"unschedulable": unschedulable}}));
                objects.patch(key.name(), patch).await?;
                format!("{key} is {}", if cordoned { "cordoned" } else { "schedulable" })
            }
            Action::Delete(object) => {
                let Located { key, objects, .. } = object.locate(service).await?;
                objects.delete(key.name()).await?;
                format!("{key} is deleted")
            }
        };
        Ok(Done { message })
    }
}

fn namespace_of(namespace: &str) -> NamespaceScope {
    if namespace.is_empty() { NamespaceScope::from(AllNamespaces) } else { NamespaceScope::from(namespace) }
}

fn merge_patch(members: &Value) -> Patch {
    PatchType::Merge.with_body(members.to_string())
}

async fn apply(service: &DashboardService, manifest: &str) -> Result<String, Refusal> {
    let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let objects = kubewright_yaml::objects(manifest).map_err(|error| bad(error.to_string()))?;
    if objects.is_empty() {
        return Err(bad("the manifest has no objects".to_owned()));
    }
    let mut applied = Vec::new();
    for mut object in objects {
        // A shown object has these fields, and a server refuses to apply them.
        object.metadata.managed_fields = Default::default();
        object.metadata.resource_version = Default::default();
        object.remove(&["status"]);
        let objects = service.mapper.api_of(&object).await?;
        let options = ApplyOptions::new(FIELD_MANAGER).force();
        objects.apply(&object, &options).await?;
        applied.push(format!("{} {}", object.kind, object.name()));
    }
    Ok(format!("{} applied", applied.join(", ")))
}
