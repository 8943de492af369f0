//! Label and field selectors.

mod field;
mod label;
mod parser;
mod requirement;

use std::{error::Error, fmt};

pub use field::{FieldRequirement, FieldSelector};
pub use label::Selector;
pub use requirement::{Operator, Requirement};

/// Why a selector is invalid; prints the server's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorError {
    message: String,
}

impl SelectorError {
    fn new(message: impl Into<String>) -> Self {
        SelectorError { message: message.into() }
    }
}

impl fmt::Display for SelectorError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SelectorError {}
