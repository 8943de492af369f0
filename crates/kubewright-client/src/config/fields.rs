//! The fields of a kubeconfig by name: one list of them serves for reading and for writing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubewright_core::{ByteString, Map, Value};

use crate::secret::Secret;

/// What is wrong with a field, and which one.
#[derive(Debug)]
pub(super) struct FieldError {
    pub(super) field: String,
    pub(super) problem: String,
}

impl FieldError {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        FieldError { field: field.to_owned(), problem: problem.into() }
    }

    /// The same error, seen from the object that holds the field's object.
    pub(super) fn within(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

/// A part of a kubeconfig with fields of known names. The others are kept as they are.
pub(super) trait Section: Default + Clone {
    /// Visits each field that has a name.
    fn fields(&mut self, fields: &mut Fields) -> Result<(), FieldError>;

    /// Where fields without a meaning are kept.
    fn unknown(&mut self) -> &mut Map<Value>;

    /// Reads a section.
    fn from_value(value: Value) -> Result<Self, FieldError> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => return Err(FieldError::new("", format!("expected a map, found {}", other.kind()))),
        };
        let (mut section, mut fields) = (Self::default(), Fields::Reading(map));
        section.fields(&mut fields)?;
        let (Fields::Reading(rest) | Fields::Writing(rest)) = fields;
        *section.unknown() = rest;
        Ok(section)
    }

    /// Writes a section; fields without a value are left out.
    fn to_value(&self) -> Value {
        let mut section = self.clone();
        let mut fields = Fields::Writing(std::mem::take(section.unknown()));
        section.fields(&mut fields).unwrap_or_else(|_| unreachable!("writing has no errors"));
        let (Fields::Reading(map) | Fields::Writing(map)) = fields;
        Value::Object(map)
    }
}

/// Fields on their way in or out.
pub(super) enum Fields {
    /// What is left to read.
    Reading(Map<Value>),
    /// What has been written.
    Writing(Map<Value>),
}

impl Fields {
    /// Visits one field.
    pub(super) fn field<F: Field>(&mut self, name: &str, field: &mut F) -> Result<(), FieldError> {
        match self {
            Fields::Reading(map) => match map.remove(name) {
                None | Some(Value::Null) => {}
                Some(value) => *field = F::read(value).map_err(|error| error.within(name))?,
            },
            Fields::Writing(map) => {
                if let Some(value) = field.write() {
                    map.insert(name, value);
                }
            }
        }
        Ok(())
    }

    /// Visits a field that is a section of its own.
    pub(super) fn section<S: Section>(&mut self, name: &str, field: &mut Option<S>) -> Result<(), FieldError> {
        match self {
            Fields::Reading(map) => match map.remove(name) {
                None | Some(Value::Null) => {}
                Some(value) => *field = Some(S::from_value(value).map_err(|error| error.within(name))?),
            },
            Fields::Writing(map) => {
                if let Some(section) = field {
                    map.insert(name, section.to_value());
                }
            }
        }
        Ok(())
    }
}

/// A type that fields have. The value of a field that is absent is its default.
pub(super) trait Field: Sized {
    fn read(value: Value) -> Result<Self, FieldError>;

    /// `None` where the field is left out.
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

impl Field for Option<String> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Some(text(value)?).filter(|text| !text.is_empty()))
    }

    fn write(&self) -> Option<Value> {
        self.as_deref().map(Value::from)
    }
}

impl Field for Option<Secret<String>> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Option::<String>::read(value)?.map(Secret::new))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|secret| Value::from(secret.expose().as_str()))
    }
}

impl Field for Option<PathBuf> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Option::<String>::read(value)?.map(PathBuf::from))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|path| Value::from(&*path.to_string_lossy()))
    }
}

impl Field for Option<ByteString> {
    fn read(value: Value) -> Result<Self, FieldError> {
        bytes(value)
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|bytes| Value::from(bytes.to_base64().as_str()))
    }
}

impl Field for Option<Secret<ByteString>> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(bytes(value)?.map(Secret::new))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(|bytes| Value::from(bytes.expose().to_base64().as_str()))
    }
}

impl Field for bool {
    fn read(value: Value) -> Result<Self, FieldError> {
        value.as_bool().ok_or_else(|| FieldError::new("", format!("expected true or false, found {}", value.kind())))
    }

    fn write(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }
}

impl Field for Vec<String> {
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

impl<F: Field + Default> Field for BTreeMap<String, F> {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Object(map) = value else {
            return Err(FieldError::new("", format!("expected a map, found {}", value.kind())));
        };
        // Collecting would sort, which is a hundred times the code for maps of a few entries.
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
