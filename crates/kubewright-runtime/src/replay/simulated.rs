//! Answers to requests that were not recorded, as a server would give them.
//!
//! Enough for a changed controller to go on: creates with name conflicts, updates, patches that
//! echo the object, deletions and reads. There is no validation, no admission and no garbage
//! collection, and caches do not show these writes.

use std::collections::HashMap;

use kubewright_core::{Value, json};
use kubewright_recording::{Body, Response};
use serde_json::value::RawValue;

use super::server::{PendingRequest, ReplayServer};

/// The objects that unrecorded writes have changed.
#[derive(Debug, Default)]
pub(super) struct SimulatedObjects {
    /// By path; `None` if it was deleted.
    objects: HashMap<String, Option<Value>>,
    created: u64,
}

impl SimulatedObjects {
    /// The answer to a request.
    pub(super) fn answer(&mut self, server: &ReplayServer, request: &PendingRequest) -> Response {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        match (request.method.as_str(), &request.body) {
            ("POST", Some(body)) => self.create(server, &path, body.clone()),
            ("PUT", Some(body)) => {
                self.objects.insert(path, Some(body.clone()));
                response(200, body)
            }
            ("DELETE", _) => match self.find(server, &path) {
                Some(object) => {
                    self.objects.insert(path, None);
                    response(200, &object)
                }
                None => status(404, "NotFound"),
            },
            ("PATCH", Some(patch)) => match self.find(server, &path) {
                Some(object) => response(200, &object),
                // Server-side apply creates.
                None if patch.get("kind").is_some() => {
                    self.objects.insert(path, Some(patch.clone()));
                    response(201, patch)
                }
                None => status(404, "NotFound"),
            },
            _ => self.find(server, &path).map_or_else(|| status(404, "NotFound"), |object| response(200, &object)),
        }
    }

    fn create(&mut self, server: &ReplayServer, path: &str, mut object: Value) -> Response {
        self.created += 1;
        let number = self.created;
        let Some(fields) = object.as_object_mut() else { return status(400, "BadRequest") };
        let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
            return status(400, "BadRequest");
        };
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = match text("name") {
            name if name.is_empty() => format!("{}replay-{number}", text("generateName")),
            name => name,
        };
        metadata.insert("name", name.as_str().into());
        metadata.insert("uid", format!("replay-{number}").into());
        metadata.insert("resourceVersion", format!("{number}").into());
        let path = format!("{path}/{name}");
        if self.find(server, &path).is_some() {
            return status(409, "AlreadyExists");
        }
        self.objects.insert(path, Some(object.clone()));
        response(201, &object)
    }

    /// The object at a path: as it was written, or as a cache shows it.
    fn find(&self, server: &ReplayServer, path: &str) -> Option<Value> {
        match self.objects.get(path) {
            Some(object) => object.clone(),
            None => server.cached(path),
        }
    }
}

fn response(code: u16, body: &Value) -> Response {
    let json = RawValue::from_string(body.to_string()).ok();
    Response {
        at: 0,
        request: 0,
        status: code,
        content_type: None,
        retry_after: None,
        body: json.map(Body::Json),
        error: None,
    }
}

fn status(code: u16, reason: &str) -> Response {
    let message = "the replay answers so, because the request was not recorded";
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": i64::from(code)});
    response(code, &status)
}
