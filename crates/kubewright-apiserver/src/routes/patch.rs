//! Patches of objects: what the patch makes of the stored object has to be an object of the kind.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::{FieldValidation, PatchOptions, PatchType};
use kubewright_core::{GroupKind, GroupResource, Str, Value};

use super::Endpoint;
use crate::decoding::{self, Expected};
use crate::http::Answer;
use crate::patching;
use crate::registry::{Origin, Part};
use crate::rejection::Rejection;

impl Endpoint<'_, '_> {
    pub(super) async fn patch(&mut self, part: Part) -> Result<Answer, Rejection> {
        let wanted = self.wanted()?;
        let (kind, options) = self.patch_options()?;
        if kind == PatchType::Apply {
            return self.apply(part, &options).await;
        }
        let (resource, body) = (Arc::clone(self.resource), self.call.body.clone());
        let expected = Expected::from(&*resource);
        let request = self.tracked(part, Origin::Patch, options.field_manager.as_deref(), options.dry_run);
        let mut findings = Vec::new();
        let change = |old: &Value| {
            let patched = patching::apply(kind, old, &body, resource.entry.map(|entry| entry.info))?;
            let decoded = decoding::normalize(expected, &patched).map_err(|rejection| unfit(rejection, &patched))?;
            Ok((decoded.value, patch_findings(decoded.findings, options.field_validation, &patched)?))
        };
        let write = |_| {
            let registry = self.call.registry;
            registry.update(&request, |old| change(old).map(|(value, found)| (value, findings = found).0))
        };
        let object = self.control.decided(write).await?;
        self.call.warnings.extend(findings);
        self.stored(StatusCode::OK, wanted, &object).await
    }

    pub(super) fn patch_options(&self) -> Result<(PatchType, PatchOptions), Rejection> {
        let text = self.call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = PatchType::from_content_type(text);
        let kind = kind.ok_or_else(|| {
            let status = Status::from_code(415, "", &GroupResource::default(), "", "415: Unsupported Media Type");
            Rejection::from(status)
        })?;
        Ok((kind, PatchOptions::from_query(self.call.query, kind)?))
    }
}

/// A patch whose result is no object of the kind is invalid as a whole.
pub(super) fn unfit(rejection: Rejection, patched: &Value) -> Rejection {
    match rejection {
        Rejection::Status(status) if status.is_bad_request() => invalid_patch(patched, &status.to_string()),
        other => other,
    }
}

fn invalid_patch(patched: &Value, why: &str) -> Rejection {
    let shown = Value::from(Str::from(patched.to_string())).to_string();
    Status::invalid(&GroupKind::default(), "", [StatusCause::invalid("patch", shown, why)]).into()
}

/// What a patch brought in that the type does not know is an error about the whole object, or a warning.
fn patch_findings(
    findings: Vec<String>,
    validation: Option<FieldValidation>,
    patched: &Value,
) -> Result<Vec<String>, Rejection> {
    match validation.unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !findings.is_empty() => {
            Err(invalid_patch(patched, &format!("strict decoding error: {}", findings.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Warn => Ok(findings),
    }
}
