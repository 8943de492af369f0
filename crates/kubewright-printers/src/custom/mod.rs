//! Printer columns of custom resources.

mod json_path;
mod parser;

use kubewright_cel::format_double;
use kubewright_core::{Time, Value, tree};

use super::object::PrintedObject;
use super::{definition, description, human_duration};
use crate::object::number_at;
pub use json_path::JsonPath;
pub use parser::JsonPathError;

/// A printer column of a CustomResourceDefinition.
#[derive(Debug, Clone)]
#[doc(alias = "CustomResourceColumnDefinition")]
pub struct CustomColumn {
    name: String,
    ty: String,
    format: String,
    description: String,
    priority: i64,
    path: JsonPath,
}

impl CustomColumn {
    /// Parses an entry of `additionalPrinterColumns`.
    ///
    /// # Errors
    ///
    /// The `jsonPath` is invalid.
    pub fn from_value(column: &Value) -> Result<Self, JsonPathError> {
        let text = |key: &str| tree::text(column, &[key]).to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            description if description.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            description => description,
        };
        Ok(CustomColumn {
            name: text("name"),
            ty: text("type"),
            format: text("format"),
            description,
            priority: number_at(column, &["priority"]),
            path: path.parse()?,
        })
    }

    /// The column of resources without columns.
    pub(super) fn age() -> Self {
        CustomColumn {
            name: "Age".to_owned(),
            ty: "date".to_owned(),
            format: String::new(),
            description: description("Age").to_owned(),
            priority: 0,
            path: ".metadata.creationTimestamp".parse().expect("this is a path"),
        }
    }

    pub(super) fn definition(&self) -> Value {
        definition(&self.name, &self.ty, &self.format, &self.description, self.priority)
    }

    /// The cell of an object. `null` if the value is missing or has a different type.
    pub(super) fn cell(&self, object: &PrintedObject<'_>) -> Value {
        let Some(value) = self.path.first(object.value) else { return Value::Null };
        match (self.ty.as_str(), value) {
            ("string", value) => printed(value).into(),
            ("integer", Value::Int(number)) => (*number).into(),
            ("integer", Value::Float(number)) => (*number as i64).into(),
            ("number", Value::Int(number)) => (*number).into(),
            ("number", Value::Float(number)) => (*number).into(),
            ("boolean", Value::Bool(flag)) => (*flag).into(),
            ("date", Value::String(text)) => match text.parse::<Time>() {
                Ok(time) if time.is_zero() => Value::from("<unknown>"),
                Ok(time) => human_duration(object.now.as_unix() - time.as_unix()).into(),
                Err(_) if text.is_empty() => Value::from("<unknown>"),
                Err(_) => Value::from("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

/// Formats a value: lists and objects as JSON, scalars as plain text.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Float(number) => format_double(*number),
        Value::Null => "<no value>".to_owned(),
        other => other.to_string(),
    }
}
