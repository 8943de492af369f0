//! Decode errors with the path to the field.

use std::fmt;
use std::str::Utf8Error;

/// Why bytes could not be decoded.
///
/// Prints the path of the field and the problem: `spec.containers[1].ports[0].containerPort:
/// expected integer, found string`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(Box<ErrorDetails>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ErrorDetails {
    message: String,
    /// From the innermost segment outwards, in the order of propagation.
    path: Vec<Segment>,
    /// The input ended too early.
    truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Field(String),
    Index(usize),
}

impl DecodeError {
    /// An error at the current position.
    #[cold]
    pub fn new(message: impl Into<String>) -> Self {
        DecodeError(Box::new(ErrorDetails { message: message.into(), path: Vec::new(), truncated: false }))
    }

    #[cold]
    pub(crate) fn truncated() -> Self {
        DecodeError(Box::new(ErrorDetails {
            message: "unexpected end of input".into(),
            path: Vec::new(),
            truncated: true,
        }))
    }

    #[cold]
    pub(crate) fn utf8(error: Utf8Error) -> Self {
        DecodeError::new(format!("invalid UTF-8 after {} bytes of text", error.valid_up_to()))
    }

    /// Whether the input was too short.
    pub fn is_truncated(&self) -> bool {
        self.0.truncated
    }

    /// The path of the field, such as `spec.containers[1].name`; empty for the object itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            match segment {
                Segment::Field(name) if path.is_empty() => path.push_str(name),
                Segment::Field(name) => path.extend([".", name]),
                Segment::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// The fields and keys from the object to the error; `None` is a list item.
    pub fn segments(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.path.iter().rev().map(|segment| match segment {
            Segment::Field(name) => Some(name.as_str()),
            Segment::Index(_) => None,
        })
    }

    /// The problem, without the path.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Prepends a field to the path.
    #[cold]
    #[must_use]
    pub fn within_field(mut self, name: &str) -> Self {
        self.0.path.push(Segment::Field(name.to_owned()));
        self
    }

    /// Prepends a list index to the path.
    #[cold]
    #[must_use]
    pub fn within_item(mut self, index: usize) -> Self {
        self.0.path.push(Segment::Index(index));
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for DecodeError {}
