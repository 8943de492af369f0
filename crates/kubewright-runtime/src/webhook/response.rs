//! Admission responses.

use kubewright_core::meta::v1::Status;
use kubewright_core::{ByteString, List, Map, StatusReason, Str, Value};

use super::tree;

/// Whether a write is allowed, and with which changes.
#[derive(Debug, Clone)]
#[must_use]
pub struct AdmissionResponse {
    is_allowed: bool,
    status: Option<Status>,
    patch: Option<Value>,
    warnings: Vec<Str>,
    audit_annotations: Map<Str>,
}

impl AdmissionResponse {
    /// Allows the write.
    #[doc(alias = "Allowed")]
    pub fn allow() -> Self {
        AdmissionResponse {
            is_allowed: true,
            status: None,
            patch: None,
            warnings: Vec::new(),
            audit_annotations: Map::new(),
        }
    }

    /// Denies the write with code 403 and this message.
    #[doc(alias = "Denied")]
    pub fn deny(message: impl Into<Str>) -> Self {
        AdmissionResponse::status(Status::failure(StatusReason::Forbidden, message))
    }

    /// Denies the write with this code; codes below 400 become 403.
    #[doc(alias = "Errored")]
    pub fn refuse(code: u16, message: impl Into<Str>) -> Self {
        let code = if code < 400 { 403 } else { code };
        let mut status = Status::failure(StatusReason::from_code(code, ""), message);
        status.code = Some(code.into());
        AdmissionResponse::status(status)
    }

    /// Denies the write with this status, such as [`Status::invalid`] with the invalid fields.
    #[doc(alias = "ValidationResponse")]
    pub fn status(status: Status) -> Self {
        AdmissionResponse { is_allowed: false, status: Some(status), ..AdmissionResponse::allow() }
    }

    /// Changes the object with this JSON patch. An empty patch is ignored.
    #[doc(alias = "Patched")]
    pub fn patch(mut self, patch: Value) -> Self {
        self.patch = Some(patch).filter(|patch| patch.as_array().is_none_or(|operations| !operations.is_empty()));
        self
    }

    /// Adds a warning for the requester, whether the write is allowed or not. Keep it below 120
    /// characters.
    #[doc(alias = "WithWarnings")]
    pub fn warning(mut self, text: impl Into<Str>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// Adds an audit annotation, under the name of the webhook and this key.
    #[doc(alias = "AuditAnnotations")]
    pub fn audit_annotation(mut self, key: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.audit_annotations.insert(key, value.into());
        self
    }

    /// Whether the write is allowed.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// The JSON patch, if there is one.
    pub fn json_patch(&self) -> Option<&Value> {
        self.patch.as_ref()
    }

    /// The status code of a denial, 200 otherwise.
    pub(super) fn code(&self) -> u16 {
        let code =
            self.status.as_ref().and_then(|status| status.code).unwrap_or(if self.is_allowed { 200 } else { 403 });
        u16::try_from(code).unwrap_or(403)
    }

    /// The status of a denial.
    pub(super) fn into_status(self) -> Status {
        self.status.unwrap_or_default()
    }

    /// The `response` of a review.
    pub(super) fn write(&self, uid: &str) -> Value {
        let mut response = Map::new();
        response.insert("uid", Value::String(uid.into()));
        response.insert("allowed", Value::Bool(self.is_allowed));
        if let Some(status) = &self.status {
            response.insert("status", tree::of_status(status));
        }
        if let Some(patch) = self.patch.as_ref().filter(|_| self.is_allowed) {
            let patch = ByteString::from(patch.to_string().as_str()).to_base64();
            response.insert("patch", Value::String(patch.into()));
            response.insert("patchType", Value::String("JSONPatch".into()));
        }
        if !self.warnings.is_empty() {
            let warnings: List<Value> = self.warnings.iter().cloned().map(Value::String).collect();
            response.insert("warnings", Value::Array(warnings));
        }
        if !self.audit_annotations.is_empty() {
            let mut annotations = Map::new();
            for (key, value) in &self.audit_annotations {
                annotations.insert(key.clone(), Value::String(value.clone()));
            }
            response.insert("auditAnnotations", Value::Object(annotations));
        }
        Value::Object(response)
    }
}
