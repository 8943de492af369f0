//! Validation of custom resources: their schemas, and the fields of the scale subresource.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_schema::scale;

use crate::CustomProperties;

/// Validates an object. `causes` are those of its metadata.
///
/// Violations by values that the update leaves unchanged become `warnings`.
pub(super) fn object(
    custom: &CustomProperties<'_>,
    mut causes: Vec<StatusCause>,
    value: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Vec<StatusCause> {
    causes.extend(custom.schema.validate_structure(value, old));
    if let Some([spec, status, selector]) = custom.scale {
        causes.extend(scale::validate_spec(value, spec));
        causes.extend(scale::validate_status(value, status, selector));
    }
    custom.schema.validate_semantics(causes, value, old, warnings)
}

/// Validates the status of an object. `causes` are those of its metadata.
pub(super) fn status(
    custom: &CustomProperties<'_>,
    mut causes: Vec<StatusCause>,
    value: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Vec<StatusCause> {
    causes.extend(custom.schema.validate_status_structure(value, old));
    if let Some([_, status, selector]) = custom.scale {
        causes.extend(scale::validate_status(value, status, selector));
    }
    custom.schema.validate_semantics(causes, value, Some(old), warnings)
}

#[cfg(test)]
mod tests {
    use kubewright_schema::Schema;

    use super::*;
    use kubewright_testing::{assert_linear, processor_time};

    #[test]
    fn the_cost_of_enums_is_linear() {
        assert_linear(1000, |count| {
            let values: Vec<String> = (0..count).map(|number| format!("\"value-{number:07}\"")).collect();
            let values = values.join(",");
            let schema = format!(r#"{{"type":"array","items":{{"type":"string","enum":[{values}]}}}}"#);
            let schema = Schema::parse(&schema.parse().expect("valid JSON"));
            let list: Value = format!("[{values}]").parse().expect("valid JSON");
            let start = processor_time();
            assert!(schema.validate_structure(&list, None).is_empty());
            start
        });
    }
}
