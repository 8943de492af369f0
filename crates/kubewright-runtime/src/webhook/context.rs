//! Everything about a write except its objects.

use kubewright_api::authentication::v1::UserInfo;
use kubewright_core::{Decoder, GroupVersionKind, GroupVersionResource, Str, Value};

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A creation.
    Create,
    /// An update.
    Update,
    /// A deletion.
    Delete,
    /// A connection to a subresource, such as `exec`.
    Connect,
}

/// A write to be admitted, without its objects.
///
/// `AdmissionContext::default()` is a creation by nobody, for unit tests of handlers.
#[doc(alias = "RequestFromContext")]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdmissionContext {
    /// The id of the request, which the response repeats.
    pub uid: Str,
    /// The kind of the object, as the webhook expects it.
    pub kind: GroupVersionKind,
    /// The resource, as the webhook expects it.
    pub resource: GroupVersionResource,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: Str,
    /// The original kind of the object, if known.
    pub request_kind: Option<GroupVersionKind>,
    /// The original resource, if known.
    pub request_resource: Option<GroupVersionResource>,
    /// The name; empty if the server generates one.
    pub name: Str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The operation.
    pub operation: Operation,
    /// The requester.
    pub user: UserInfo,
    /// Whether the write is a dry run, so that there must be no side effects.
    pub dry_run: bool,
    /// The options of the write, such as `CreateOptions`.
    pub options: Value,
}

impl AdmissionContext {
    /// Parses the `request` of a review.
    ///
    /// # Errors
    /// A message, if it is malformed.
    pub(super) fn read(request: &Value) -> Result<Self, String> {
        let text = |field: &str| Str::from(request.get(field).and_then(Value::as_str).unwrap_or_default());
        let operation = match &*text("operation") {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            other => return Err(format!("unknown operation {other:?}")),
        };
        let user = request.get("userInfo").map(|user| Decoder::new().json(user.to_string().as_bytes())).transpose();
        Ok(AdmissionContext {
            uid: text("uid"),
            kind: kind(request.get("kind")).unwrap_or_default(),
            resource: resource(request.get("resource")).unwrap_or_default(),
            subresource: text("subResource"),
            request_kind: kind(request.get("requestKind")),
            request_resource: resource(request.get("requestResource")),
            name: text("name"),
            namespace: text("namespace"),
            operation,
            user: user.map_err(|error| format!("userInfo: {error}"))?.unwrap_or_default(),
            dry_run: request.get("dryRun").and_then(Value::as_bool).unwrap_or_default(),
            options: request.get("options").cloned().unwrap_or_default(),
        })
    }
}

impl Default for AdmissionContext {
    fn default() -> Self {
        AdmissionContext {
            uid: Str::default(),
            kind: GroupVersionKind::default(),
            resource: GroupVersionResource::default(),
            subresource: Str::default(),
            request_kind: None,
            request_resource: None,
            name: Str::default(),
            namespace: Str::default(),
            operation: Operation::Create,
            user: UserInfo::default(),
            dry_run: false,
            options: Value::default(),
        }
    }
}

fn kind(value: Option<&Value>) -> Option<GroupVersionKind> {
    let text = |field: &str| value.and_then(|value| value.get(field)?.as_str()).unwrap_or_default().to_owned();
    value?.as_object()?;
    Some(GroupVersionKind::new(text("group"), text("version"), text("kind")))
}

fn resource(value: Option<&Value>) -> Option<GroupVersionResource> {
    let text = |field: &str| value.and_then(|value| value.get(field)?.as_str()).unwrap_or_default().to_owned();
    value?.as_object()?;
    Some(GroupVersionResource::new(text("group"), text("version"), text("resource")))
}
