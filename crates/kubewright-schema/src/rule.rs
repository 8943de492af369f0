//! A CEL validation rule of a schema.

use kubewright_cel::{Activation, Budget, Environment, Program, Type};
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{CauseType, Str, Value, tree};

use crate::cause::{NO_FIELD, display};

/// The limit on the length of a computed message, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

/// An entry of `x-kubernetes-validations`, compiled.
#[derive(Debug, Clone)]
pub(crate) struct ValidationRule {
    text: Str,
    message: Str,
    message_expression: Option<Program>,
    reason: Option<CauseType>,
    /// The path of the reported field, relative to the value.
    field_path: String,
    /// Absent if the rule does not compile. Only stored definitions have such rules.
    pub(crate) program: Option<Program>,
    /// Whether the rule refers to `oldSelf`.
    pub(crate) is_transition: bool,
    pub(crate) has_optional_old: bool,
}

impl ValidationRule {
    /// Parses and compiles a rule about values of a type.
    pub(crate) fn parse(rule: &Value, ty: &Type) -> ValidationRule {
        let text = |field: &str| Str::from(tree::text(rule, &[field]));
        let has_optional_old = tree::is_true(rule, &["optionalOldSelf"]);
        let environment = environment(ty, has_optional_old);
        let compile = |text: &str| environment.compile(text).ok();
        let program = compile(&text("rule"));
        ValidationRule {
            message: text("message"),
            message_expression: Some(text("messageExpression"))
                .filter(|text| !text.is_empty())
                .and_then(|text| compile(&text)),
            reason: CauseType::from_name(&text("reason")),
            field_path: parse_field_path(&text("fieldPath")).unwrap_or_default(),
            is_transition: program.as_ref().is_some_and(|program| program.references("oldSelf")),
            text: text("rule"),
            program,
            has_optional_old,
        }
    }

    /// The message for a value that violates the rule.
    pub(crate) fn violation_message(&self, activation: &Activation<'_>, budget: &mut Budget) -> String {
        let program = self.message_expression.as_ref();
        let computed = program.and_then(|program| program.evaluate_string(activation, budget).ok());
        let computed = computed.map(|text| text.trim().to_owned());
        match computed.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE) {
            Some(text) => text,
            None if self.message.is_empty() => format!("failed rule: {}", self.text.trim()),
            None => self.message.trim().to_owned(),
        }
    }

    /// The message of the rule, or its expression.
    pub(crate) fn message_or_expression(&self) -> &str {
        if self.message.is_empty() { self.text.trim() } else { self.message.trim() }
    }

    /// The cause for a violation by the value at `path`.
    pub(crate) fn cause(&self, path: String, value: &Value, detail: &str) -> StatusCause {
        let path = match format!("{path}{}", self.field_path).trim_start_matches('.') {
            "" => NO_FIELD.to_owned(),
            path => path.to_owned(),
        };
        match self.reason {
            Some(CauseType::FieldValueForbidden) => StatusCause::forbidden(path, detail),
            Some(CauseType::FieldValueRequired) => StatusCause::required(path, detail),
            Some(CauseType::FieldValueDuplicate) => duplicate(path, value),
            _ => invalid(path, value, detail),
        }
    }
}

/// The variables of a rule about values of a type.
pub(crate) fn environment(ty: &Type, has_optional_old: bool) -> Environment {
    let old = if has_optional_old { Type::optional(ty.clone()) } else { ty.clone() };
    Environment::new().variable("self", ty.clone()).variable("oldSelf", old)
}

/// Parses a path such as `.spec['a.b']` into the form of messages, `None` if it is malformed.
pub(crate) fn parse_field_path(path: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            out += &format!("[{name}]");
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            out += &rest[..=end];
            rest = &after[end..];
        }
    }
    Some(out)
}

/// An invalid value. Objects and lists are not shown.
fn invalid(path: String, value: &Value, detail: &str) -> StatusCause {
    match value {
        Value::Object(_) | Value::Array(_) => {
            without_value(CauseType::FieldValueInvalid, path, format!("Invalid value: {detail}"))
        }
        value => StatusCause::invalid(path, display(value), detail),
    }
}

/// A duplicate value. Objects and lists are not shown.
fn duplicate(path: String, value: &Value) -> StatusCause {
    match value {
        Value::Object(_) | Value::Array(_) => {
            without_value(CauseType::FieldValueDuplicate, path, "Duplicate value".to_owned())
        }
        value => StatusCause::duplicate(path, display(value)),
    }
}

fn without_value(cause: CauseType, path: String, message: String) -> StatusCause {
    let mut cause = StatusCause::of(cause, message);
    cause.field = Some(path.into());
    cause
}
