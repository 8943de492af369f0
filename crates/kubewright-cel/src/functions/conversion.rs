//! Type conversions.

use kubewright_core::Duration;

use crate::error::EvaluationError;
use crate::number_format::format_double;
use crate::operators::checked_timestamp;
use crate::timestamp;
use crate::value::{EvaluationResult, Value};

/// Calls a conversion function.
pub(super) fn call(function: &str, arguments: &[Value]) -> EvaluationResult {
    let [value] = arguments else { return Err(EvaluationError::no_overload()) };
    match function {
        "bool" => bool(value),
        "int" => int(value),
        "uint" => uint(value),
        "double" => double(value),
        "string" => string(value).map(Value::from),
        "bytes" => match value {
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            Value::Bytes(_) => Ok(value.clone()),
            _ => Err(EvaluationError::no_overload()),
        },
        "duration" => match value {
            Value::String(text) => {
                let parsed = text.parse::<Duration>().map(|duration| Value::Duration(duration.as_nanos()));
                parsed.map_err(|_| EvaluationError::new(format!("invalid duration {:?}", text.as_str())))
            }
            Value::Duration(_) => Ok(value.clone()),
            _ => Err(EvaluationError::no_overload()),
        },
        "timestamp" => match value {
            Value::String(text) => {
                let parsed = timestamp::parse(text).map(Value::Timestamp);
                parsed.ok_or_else(|| EvaluationError::new(format!("invalid timestamp {:?}", text.as_str())))
            }
            Value::Int(seconds) => checked_timestamp(i128::from(*seconds) * 1_000_000_000),
            Value::Timestamp(_) => Ok(value.clone()),
            _ => Err(EvaluationError::no_overload()),
        },
        _ => Err(EvaluationError::no_overload()),
    }
}

fn bool(value: &Value) -> EvaluationResult {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(EvaluationError::new("type conversion error from 'string' to 'bool'")),
        },
        _ => Err(EvaluationError::no_overload()),
    }
}

fn int(value: &Value) -> EvaluationResult {
    let out_of_range = || EvaluationError::new("integer overflow");
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| out_of_range()),
        Value::Double(number) if number.abs() < 9_223_372_036_854_774_784.0 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(out_of_range()),
        Value::String(text) => {
            let parsed = text.parse().map(Value::Int);
            parsed.map_err(|_| EvaluationError::new("type conversion error from 'string' to 'int'"))
        }
        Value::Timestamp(nanos) => {
            i64::try_from(nanos.div_euclid(1_000_000_000)).map(Value::Int).map_err(|_| out_of_range())
        }
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn uint(value: &Value) -> EvaluationResult {
    let out_of_range = || EvaluationError::new("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| out_of_range()),
        Value::Double(number) if (0.0..18_446_744_073_709_549_568.0).contains(number) => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(out_of_range()),
        Value::String(text) => {
            let parsed = text.parse().map(Value::Uint);
            parsed.map_err(|_| EvaluationError::new("type conversion error from 'string' to 'uint'"))
        }
        _ => Err(EvaluationError::no_overload()),
    }
}

fn double(value: &Value) -> EvaluationResult {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => {
            let parsed = text.parse().map(Value::Double);
            parsed.map_err(|_| EvaluationError::new("type conversion error from 'string' to 'double'"))
        }
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Converts a value to a string.
pub(super) fn string(value: &Value) -> Result<String, EvaluationError> {
    Ok(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => format_double(*number),
        Value::Bytes(bytes) => {
            let text = String::from_utf8(bytes.to_vec());
            text.map_err(|_| EvaluationError::new("invalid UTF-8 in bytes, cannot convert to string"))?
        }
        Value::Timestamp(nanos) => timestamp::format(*nanos),
        Value::Duration(nanos) => format!("{}s", *nanos as f64 / 1e9),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(range) => range.to_string(),
        _ => return Err(EvaluationError::no_overload()),
    })
}
