//! Validation of the fields that the scale subresource reads.
//!
//! Paths are those of the definition, such as `.spec.replicas`.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::cause::display;

/// Validates the desired replicas.
pub fn validate_spec(object: &Value, path: &str) -> Vec<StatusCause> {
    replicas(object, path).into_iter().collect()
}

/// Validates the observed replicas, and the selector if its path is not empty.
pub fn validate_status(object: &Value, path: &str, selector: &str) -> Vec<StatusCause> {
    let mut causes: Vec<StatusCause> = replicas(object, path).into_iter().collect();
    if !selector.is_empty()
        && let Err(why) = nested(object, selector, "string", |value| value.as_str())
    {
        causes.push(StatusCause::invalid(selector, "\"\"", &why));
    }
    causes
}

fn replicas(object: &Value, path: &str) -> Option<StatusCause> {
    match nested(object, path, "int64", Value::as_i64) {
        Err(why) => Some(StatusCause::invalid(path, 0, &why)),
        Ok(Some(number)) if number < 0 => Some(StatusCause::invalid(path, number, "should be a non-negative integer")),
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            let why = format!("should be less than or equal to {}", i32::MAX);
            Some(StatusCause::invalid(path, number, &why))
        }
        Ok(_) => None,
    }
}

/// The value at a path. `None` if it is absent, an error if it or its parents have a wrong type.
fn nested<'a, T>(
    object: &'a Value,
    path: &str,
    expected: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let type_error = |value: &Value, expected: &str| {
        let shown = value.as_str().map_or_else(|| display(value), str::to_owned);
        format!("{path} accessor error: {shown} is of the type {}, expected {expected}", go_type(value))
    };
    let steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let mut here = object;
    for step in steps {
        let Some(fields) = here.as_object() else {
            return Err(type_error(here, "map[string]interface{}"));
        };
        match fields.get(step) {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    read(here).map(Some).ok_or_else(|| type_error(here, expected))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
