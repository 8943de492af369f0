//! Patch requests.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use kubewright_core::json::Reader;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::{FieldValidation, PatchOptions, PatchType};
use kubewright_core::{Decoder, GroupKind, GroupResource, Str, Value};

use super::ResourceRequest;
use crate::admission::Part;
use crate::http::ApiResponse;
use crate::patching;
use crate::registry::UpdateKind;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::decoding::{self, ExpectedType};

impl ResourceRequest<'_, '_> {
    pub(super) async fn patch(&mut self, part: Part) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let (kind, options) = self.patch_options()?;
        if kind == PatchType::Apply {
            return self.apply(part, &options).await;
        }
        let (resource, body) = (Arc::clone(self.resource), self.call.body.clone());
        let expected = ExpectedType::from(&*resource);
        let request = self.tracked(part, UpdateKind::Patch, options.field_manager.as_deref(), options.dry_run);
        let mut findings = Vec::new();
        let change = |old: &Value| {
            let (patched, mut found) = patching::apply(kind, old, &body, resource.entry.map(|entry| entry.info))?;
            let attempt = PatchAttempt { kind, body: &body, expected, patched: &patched };
            let decoded = decoding::normalize(expected, &patched).map_err(|status| attempt.unfit(status))?;
            found.extend(decoded.findings);
            Ok((decoded.value, attempt.findings(found, options.field_validation)?))
        };
        let write = |_| {
            let registry = self.call.registry;
            registry.update(&request, |old| change(old).map(|(value, found)| (value, findings = found).0))
        };
        let object = self.control.run_write(write).await?;
        self.call.warnings.extend(findings);
        self.stored(StatusCode::OK, wanted, &object).await
    }

    pub(super) fn patch_options(&self) -> Result<(PatchType, PatchOptions), Rejection> {
        let text = self.call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = PatchType::from_content_type(text);
        let kind = kind.ok_or_else(|| {
            if self.resource.is_custom() {
                return Rejection::from(Status::unsupported_media_type(patching::CUSTOM_PATCHES));
            }
            let status = Status::from_code(415, "", &GroupResource::default(), "", "415: Unsupported Media Type");
            Rejection::from(status)
        })?;
        Ok((kind, PatchOptions::from_query(self.call.query, kind)?))
    }
}

/// A patch and its result.
pub(super) struct PatchAttempt<'a> {
    pub(super) kind: PatchType,
    pub(super) body: &'a [u8],
    pub(super) expected: ExpectedType<'a>,
    pub(super) patched: &'a Value,
}

impl PatchAttempt<'_> {
    /// A patch whose result cannot be decoded is invalid as a whole.
    pub(super) fn unfit(&self, status: Box<Status>) -> Rejection {
        if !status.is_bad_request() {
            return status.into();
        }
        let is_strategic = self.kind == PatchType::Strategic;
        let why = decoding::type_error(self.expected, self.patched, is_strategic);
        self.invalid(&why.unwrap_or_else(|| status.to_string()))
    }

    /// Unknown fields in the result become an error about the whole object, or warnings.
    pub(super) fn findings(
        &self,
        findings: Vec<String>,
        validation: Option<FieldValidation>,
    ) -> Result<Vec<String>, Rejection> {
        match validation.unwrap_or(FieldValidation::Warn) {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Strict if !findings.is_empty() => {
                Err(self.invalid(&format!("strict decoding error: {}", findings.join(", "))))
            }
            FieldValidation::Strict | FieldValidation::Warn => Ok(findings),
        }
    }

    /// 422 about the whole object. A strategic merge patch shows itself, other patches their
    /// result.
    fn invalid(&self, why: &str) -> Rejection {
        // The body was parsed before, with duplicate keys allowed.
        let patch = Reader::new(self.body, &mut Decoder::new().report_findings()).tree();
        let shown = match (self.kind, patch) {
            (PatchType::Strategic, Ok(patch)) => decoding::go_format(&patch),
            _ => self.patched.to_string(),
        };
        let shown = Value::from(Str::from(shown)).to_string();
        Status::invalid(&GroupKind::default(), "", [StatusCause::invalid("patch", shown, why)]).into()
    }
}
