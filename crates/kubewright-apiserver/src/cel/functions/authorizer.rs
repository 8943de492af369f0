//! Questions about what somebody may do. They are put together here and answered by whoever evaluates.

use std::sync::Arc;

use kubewright_core::Str;

use super::Evaluated;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

/// Who wants to do what, as far as an expression has said it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) stage: Stage,
    /// Namespace and name, where it is not the user of the request.
    pub(crate) account: Option<(Str, Str)>,
    pub(crate) path: Str,
    pub(crate) group: Str,
    pub(crate) resource: Str,
    pub(crate) subresource: Str,
    pub(crate) namespace: Str,
    pub(crate) name: Str,
    /// What the request itself is about.
    pub(crate) request: Option<Arc<Check>>,
}

/// How much has been said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Nothing,
    Group,
    Path,
    Resource,
}

/// Says more of a question.
pub(super) fn method(check: &Check, function: &str, arguments: &[Value]) -> Evaluated {
    let texts = arguments.iter().map(|argument| match argument {
        Value::String(text) => Ok(text.clone()),
        _ => Err(EvaluationError::no_overload()),
    });
    let texts = texts.collect::<Result<Vec<Str>, _>>()?;
    let mut check = check.clone();
    match (check.stage, function, &texts[..]) {
        (Stage::Nothing, "path", [path]) => (check.stage, check.path) = (Stage::Path, path.clone()),
        (Stage::Nothing, "group", [group]) => (check.stage, check.group) = (Stage::Group, group.clone()),
        (Stage::Nothing, "serviceAccount", [namespace, name]) => {
            check.account = Some((namespace.clone(), name.clone()))
        }
        (Stage::Nothing, "requestResource", []) => {
            let request = check.request.clone().ok_or_else(EvaluationError::no_overload)?;
            check = Check { account: check.account, ..Check::clone(&request) };
        }
        (Stage::Group, "resource", [name]) => (check.stage, check.resource) = (Stage::Resource, name.clone()),
        (Stage::Resource, "subresource", [name]) => check.subresource = name.clone(),
        (Stage::Resource, "namespace", [name]) => check.namespace = name.clone(),
        (Stage::Resource, "name", [name]) => check.name = name.clone(),
        // Roles allow without a look at selectors.
        (Stage::Resource, "fieldSelector" | "labelSelector", [_]) => {}
        _ => return Err(EvaluationError::no_overload()),
    }
    Ok(Value::Check(Arc::new(check)))
}
