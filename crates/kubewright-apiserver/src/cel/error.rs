//! Why an expression cannot be read, or has no value.

use std::fmt;

/// What is wrong with the text of an expression, as the real server says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompileError(String);

impl CompileError {
    /// Several things are wrong.
    pub(super) fn all(errors: impl Iterator<Item = CompileError>) -> Self {
        CompileError(errors.map(|error| error.0).collect::<Vec<_>>().join("\n"))
    }

    /// Something is wrong at an offset in characters.
    pub(super) fn at(text: &str, offset: usize, message: impl fmt::Display) -> Self {
        let (mut line, mut column, mut begin) = (1, 0, 0);
        for (index, letter) in text.char_indices().take(offset) {
            if letter == '\n' {
                (line, column, begin) = (line + 1, 0, index + 1);
            } else {
                column += 1;
            }
        }
        let source = text[begin..].lines().next().unwrap_or_default();
        let dots = ".".repeat(column);
        let column = column + 1;
        CompileError(format!("ERROR: <input>:{line}:{column}: {message}\n | {source}\n | {dots}^"))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EvaluationError {
    /// Something in it does not work out. Logic may do without that part.
    Failed(String),
    /// It takes longer than it may.
    OutOfBudget,
}

impl EvaluationError {
    /// Something does not work out.
    pub(super) fn new(message: impl Into<String>) -> Self {
        EvaluationError::Failed(message.into())
    }

    /// There is no function of this name for values of these types.
    pub(super) fn no_overload() -> Self {
        EvaluationError::new("no such overload")
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluationError::Failed(message) => f.write_str(message),
            EvaluationError::OutOfBudget => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}
