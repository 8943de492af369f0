//! Fields of a kubeconfig, described once for reading and writing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubewright_core::{ByteString, Map, Value};

use crate::secret::Secret;

/// A problem with a field.
#[derive(Debug)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) problem: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        FieldError { field: field.to_owned(), problem: problem.into() }
    }

    /// Prepends the parent to the path.
    pub(crate) fn within(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

/// A section of a kubeconfig with known fields. Unknown fields are preserved.
pub(crate) trait Section: Default + Clone {
    /// Visits each known field.
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError>;

    /// Storage for unknown fields.
    fn unknown(&mut self) -> &mut Map<Value>;

    /// Parses a section.
    fn from_value(value: Value) -> Result<Self, FieldError> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => return Err(FieldError::new("", format!("expected a map, found {}", other.kind()))),
        };
        let (mut section, mut fields) = (Self::default(), FieldVisitor::Reading(map));
        section.fields(&mut fields)?;
        let (FieldVisitor::Reading(rest) | FieldVisitor::Writing(rest)) = fields;
        *section.unknown() = rest;
        Ok(section)
    }

    /// Serialises a section; unset fields are omitted.
    fn to_value(&self) -> Value {
        let mut section = self.clone();
        let mut fields = FieldVisitor::Writing(std::mem::take(section.unknown()));
        section.fields(&mut fields).unwrap_or_else(|_| unreachable!("writing has no errors"));
        let (FieldVisitor::Reading(map) | FieldVisitor::Writing(map)) = fields;
        Value::Object(map)
    }
}

/// Fields being read or written.
pub(crate) enum FieldVisitor {
    /// The fields left to read.
    Reading(Map<Value>),
    /// The fields written so far.
    Writing(Map<Value>),
}

impl FieldVisitor {
    /// Visits one field.
    pub(crate) fn field<F: FieldValue>(&mut self, name: &str, field: &mut F) -> Result<(), FieldError> {
        match self {
            FieldVisitor::Reading(map) => match map.remove(name) {
                None | Some(Value::Null) => {}
                Some(value) => *field = F::read(value).map_err(|error| error.within(name))?,
            },
            FieldVisitor::Writing(map) => {
                if let Some(value) = field.write() {
                    map.insert(name, value);
                }
            }
        }
        Ok(())
    }

    /// Visits a nested section.
    pub(crate) fn section<S: Section>(&mut self, name: &str, field: &mut Option<S>) -> Result<(), FieldError> {
        match self {
            FieldVisitor::Reading(map) => match map.remove(name) {
                None | Some(Value::Null) => {}
                Some(value) => *field = Some(S::from_value(value).map_err(|error| error.within(name))?),
            },
            FieldVisitor::Writing(map) => {
                if let Some(section) = field {
                    map.insert(name, section.to_value());
                }
            }
        }
        Ok(())
    }
}

/// The type of a field. An absent field has the default value.
pub(crate) trait FieldValue: Sized {
    fn read(value: Value) -> Result<Self, FieldError>;

    /// `None` if the field is omitted.
    fn write(&self) -> Option<Value>;
}

fn text(value: Value) -> Result<String, FieldError> {
    match value {
        Value::String(text) => Ok(text.as_str().to_owned()),
        other => Err(FieldError::new("", format!("expected text, found {}", other.kind()))),
    }
}

fn bytes(value: Value) -> Result<Option<ByteString>, FieldError> {
    let text = text(value)?;
    let bytes = ByteString::from_base64(text.as_bytes()).map_err(|_| FieldError::new("", "is not base64"))?;
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

impl FieldValue for Option<String> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Some(text(value)?).filter(|text| !text.is_empty()))
    }

    fn write(&self) -> Option<Value> {
        self.as_deref().map(Value::from)
    }
}

impl FieldValue for Option<Secret<String>> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Option::<String>::read(value)?.map(Secret::new))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|secret| Value::from(secret.expose().as_str()))
    }
}

impl FieldValue for Option<PathBuf> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Option::<String>::read(value)?.map(PathBuf::from))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|path| Value::from(&*path.to_string_lossy()))
    }
}

impl FieldValue for Option<ByteString> {
    fn read(value: Value) -> Result<Self, FieldError> {
        bytes(value)
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|bytes| Value::from(bytes.to_base64().as_str()))
    }
}

impl FieldValue for Option<Secret<ByteString>> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(bytes(value)?.map(Secret::new))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|bytes| Value::from(bytes.expose().to_base64().as_str()))
    }
}

impl FieldValue for bool {
    fn read(value: Value) -> Result<Self, FieldError> {
        value.as_bool().ok_or_else(|| FieldError::new("", format!("expected true or false, found {}", value.kind())))
    }

    fn write(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }
}

impl FieldValue for Vec<String> {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Array(items) = value else {
            return Err(FieldError::new("", format!("expected a list, found {}", value.kind())));
        };
        let item = |(index, item)| text(item).map_err(|error| error.within(&format!("[{index}]")));
        items.into_iter().enumerate().map(item).collect()
    }

    fn write(&self) -> Option<Value> {
        let items = self.iter().map(|item| Value::from(item.as_str()));
        (!self.is_empty()).then(|| Value::Array(items.collect()))
    }
}

impl<F: FieldValue + Default> FieldValue for BTreeMap<String, F> {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Object(map) = value else {
            return Err(FieldError::new("", format!("expected a map, found {}", value.kind())));
        };
        // `collect` would sort, which is a hundred times the code for small maps.
        let mut entries = BTreeMap::new();
        for (key, value) in map {
            let field = match value {
                Value::Null => F::default(),
                value => F::read(value).map_err(|error| error.within(&key))?,
            };
            entries.insert(key.as_str().to_owned(), field);
        }
        Ok(entries)
    }

    fn write(&self) -> Option<Value> {
        let entries = self.iter().filter_map(|(key, field)| Some((key.as_str(), field.write()?)));
        (!self.is_empty()).then(|| Value::Object(entries.collect()))
    }
}
