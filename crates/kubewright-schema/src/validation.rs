//! Validation of objects.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{CauseType, Value};

use crate::cause::NO_FIELD;
use crate::embedded_resource;
use crate::field_path::FieldPath;
use crate::list_type::check_duplicates;
use crate::schema::Schema;
use crate::value_validator::ValueValidator;

/// The outcome of a validation.
#[derive(Debug, Clone, Default)]
pub struct Validation {
    /// Why the object is invalid. Empty if it is valid.
    pub causes: Vec<StatusCause>,
    /// Violations of CEL rules by values that the update leaves unchanged.
    pub warnings: Vec<String>,
}

impl Schema {
    /// Validates an object that replaces `old`.
    ///
    /// ```
    /// use kubewright_core::json;
    /// use kubewright_schema::Schema;
    ///
    /// let schema = Schema::parse(&json!({
    ///     "type": "object",
    ///     "properties": {"size": {"type": "integer", "maximum": 3}},
    /// }));
    /// let (old, new) = (json!({"size": 5}), json!({"size": 5, "color": "red"}));
    /// assert_eq!(schema.validate(&new, None).causes.len(), 1);
    /// assert!(schema.validate(&new, Some(&old)).causes.is_empty(), "the size did not change");
    /// ```
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Validation {
        let mut warnings = Vec::new();
        let causes = self.validate_structure(object, old);
        let causes = self.validate_semantics(causes, object, old, &mut warnings);
        Validation { causes, warnings }
    }

    /// Validates types, formats and bounds: the first step of [`validate`](Self::validate).
    pub fn validate_structure(&self, object: &Value, old: Option<&Value>) -> Vec<StatusCause> {
        ValueValidator::validate("", self, object, old)
    }

    /// Validates the structure of the status of an object, for updates of the status subresource.
    pub fn validate_status_structure(&self, object: &Value, old: &Value) -> Vec<StatusCause> {
        match (self.properties.get("status"), object.get("status")) {
            (Some(schema), Some(status)) => ValueValidator::validate("status", schema, status, old.get("status")),
            _ => Vec::new(),
        }
    }

    /// Validates embedded resources, unique items and CEL rules: the second step of
    /// [`validate`](Self::validate).
    ///
    /// `causes` are those of earlier steps and are returned with the new ones. If they include
    /// structural errors, rules are not evaluated.
    pub fn validate_semantics(
        &self,
        mut causes: Vec<StatusCause>,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Vec<StatusCause> {
        embedded_resource::check(self, "", object, &mut causes);
        let duplicates = |object: &Value| {
            let mut duplicates = Vec::new();
            check_duplicates(self, &FieldPath::Root, object, &mut duplicates);
            duplicates
        };
        let new_duplicates = duplicates(object);
        // Ratcheting: an object that had duplicates before may have some.
        if !new_duplicates.is_empty() && old.is_none_or(|old| duplicates(old).is_empty()) {
            causes.extend(new_duplicates);
        }
        if !self.has_rules {
            return causes;
        }
        if !causes.iter().any(prevents_rules) {
            causes.extend(self.rule_violations(object, old, warnings));
        } else {
            let why = "some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
            causes.push(StatusCause::invalid(NO_FIELD, "null", why));
        }
        causes
    }

    /// Validates a default at `path`. Each step runs only if the one before found no errors.
    pub(crate) fn validate_default(&self, path: &str, default: &Value) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        embedded_resource::check(self, path, default, &mut causes);
        if causes.is_empty() {
            causes = ValueValidator::validate_default(path, self, default);
        }
        if causes.is_empty() {
            causes = self.rule_violations_of_default(path, default);
        }
        causes
    }
}

/// Whether a cause means that rules cannot be evaluated: they rely on the structure.
fn prevents_rules(cause: &StatusCause) -> bool {
    use CauseType::*;
    let types =
        [FieldValueNotSupported, FieldValueRequired, FieldValueTooLong, FieldValueTooMany, FieldValueTypeInvalid];
    cause.cause_type().is_some_and(|cause_type| types.contains(&cause_type))
}
