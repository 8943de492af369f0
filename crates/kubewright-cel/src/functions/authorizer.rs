//! The authorizer library: expressions build a check step by step, the activation answers it.

use std::sync::Arc;

use kubewright_core::Str;

use crate::authorization::{AuthorizationCheck, CheckKind};
use crate::error::EvaluationError;
use crate::value::{EvaluationResult, Value};

/// Calls a method that refines a check.
pub(super) fn method(check: &AuthorizationCheck, function: &str, arguments: &[Value]) -> EvaluationResult {
    let texts = arguments.iter().map(|argument| match argument {
        Value::String(text) => Ok(text.clone()),
        _ => Err(EvaluationError::no_overload()),
    });
    let texts = texts.collect::<Result<Vec<Str>, _>>()?;
    let mut check = check.clone();
    match (check.kind, function, &texts[..]) {
        (CheckKind::Authorizer, "path", [path]) => (check.kind, check.path) = (CheckKind::Path, path.clone()),
        (CheckKind::Authorizer, "group", [group]) => (check.kind, check.group) = (CheckKind::Group, group.clone()),
        (CheckKind::Authorizer, "serviceAccount", [namespace, name]) => {
            check.service_account = Some((namespace.clone(), name.clone()))
        }
        (CheckKind::Authorizer, "requestResource", []) => {
            let request = check.request.clone().ok_or_else(EvaluationError::no_overload)?;
            check =
                AuthorizationCheck { service_account: check.service_account, ..AuthorizationCheck::clone(&request) };
        }
        (CheckKind::Group, "resource", [name]) => (check.kind, check.resource) = (CheckKind::Resource, name.clone()),
        (CheckKind::Resource, "subresource", [name]) => check.subresource = name.clone(),
        (CheckKind::Resource, "namespace", [name]) => check.namespace = name.clone(),
        (CheckKind::Resource, "name", [name]) => check.name = name.clone(),
        (CheckKind::Resource, "fieldSelector", [selector]) => check.field_selector = selector.clone(),
        (CheckKind::Resource, "labelSelector", [selector]) => check.label_selector = selector.clone(),
        _ => return Err(EvaluationError::no_overload()),
    }
    Ok(Value::AuthorizationCheck(Arc::new(check)))
}
