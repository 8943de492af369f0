//! Actions of the page: writes of objects, and pauses of controllers.

use std::sync::Arc;

use hyper::StatusCode;
use kubewright_client::ScaleApi;
use kubewright_core::options::{ApplyOptions, Patch, PatchOptions, PatchType};
use kubewright_core::{AllNamespaces, NamespaceScope, Object};
use kubewright_workqueue::Gate;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object_view::{Located, ObjectRequest};
use crate::refusal::Refusal;
use crate::server::LiveProgram;

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
    /// Ends a pod as failed.
    Fail(ObjectRequest),
    /// Pauses a controller.
    Pause(String),
    /// Lets a controller run again.
    Resume(String),
    /// Lets a paused controller reconcile one key.
    Step(String),
}

/// The body of an action on an object.
#[derive(Deserialize)]
struct Target {
    resource: String,
    key: String,
    replicas: Option<i32>,
    cordoned: Option<bool>,
}

/// The body of an action on a controller.
#[derive(Deserialize)]
struct NamedController {
    controller: String,
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
        if let "pause" | "resume" | "step" = name {
            let named: NamedController =
                serde_json::from_slice(body).map_err(|error| bad(format!("the action cannot be read: {error}")))?;
            let action = match name {
                "pause" => Action::Pause,
                "resume" => Action::Resume,
                _ => Action::Step,
            };
            return Ok(action(named.controller));
        }
        let target: Target =
            serde_json::from_slice(body).map_err(|error| bad(format!("the action cannot be read: {error}")))?;
        let Target { resource, key, replicas, cordoned } = target;
        let object = ObjectRequest { resource, key };
        match (name, replicas, cordoned) {
            ("delete", _, _) => Ok(Action::Delete(object)),
            ("fail", _, _) => Ok(Action::Fail(object)),
            ("scale", Some(replicas @ 0..), _) => Ok(Action::Scale(object, replicas)),
            ("scale", _, _) => Err(bad("scale needs replicas, a number of at least 0".to_owned())),
            ("cordon", _, Some(cordoned)) => Ok(Action::Cordon(object, cordoned)),
            ("cordon", _, None) => Err(bad("cordon needs cordoned, true or false".to_owned())),
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no action {name:?}"))),
        }
    }

    pub(crate) async fn perform(self, service: &LiveProgram) -> Result<Done, Refusal> {
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
            Action::Fail(object) => {
                let Located { mapping, key, objects } = object.locate(service).await?;
                if mapping.resource.resource != "pods" {
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, "only pods can be failed"));
                }
                let message = "failed by the dashboard";
                let status = serde_json::json!({"phase": "Failed", "reason": "Failed", "message": message});
                objects.patch_status(key.name(), merge_patch(&serde_json::json!({ "status": status }))).await?;
                format!("{key} has failed")
            }
            Action::Pause(name) => {
                gate(service, &name)?.pause();
                format!("{name} is paused")
            }
            Action::Resume(name) => {
                gate(service, &name)?.resume();
                format!("{name} runs")
            }
            Action::Step(name) => {
                let gate = gate(service, &name)?;
                if !gate.is_paused() {
                    return Err(Refusal::new(StatusCode::CONFLICT, format!("{name} is not paused")));
                }
                gate.step();
                format!("{name} takes one key")
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

fn gate(service: &LiveProgram, name: &str) -> Result<Arc<Gate>, Refusal> {
    let gate = service.observed.gate(name);
    gate.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("{name:?} cannot be paused, or does not run")))
}

fn namespace_of(namespace: &str) -> NamespaceScope {
    if namespace.is_empty() { NamespaceScope::from(AllNamespaces) } else { NamespaceScope::from(namespace) }
}

fn merge_patch(members: &Value) -> Patch {
    PatchType::Merge.with_body(members.to_string())
}

async fn apply(service: &LiveProgram, manifest: &str) -> Result<String, Refusal> {
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
