//! Errors of compilation and evaluation.

use std::fmt;

/// Why an expression does not compile, in the format of kube-apiserver.
///
/// The message may have several lines: each error shows its position in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError(String);

impl CompileError {
    /// Joins several errors.
    pub(crate) fn all(errors: impl Iterator<Item = CompileError>) -> Self {
        CompileError(errors.map(|error| error.0).collect::<Vec<_>>().join("\n"))
    }

    /// An error at an offset in characters.
    pub(crate) fn at(text: &str, offset: usize, message: impl fmt::Display) -> Self {
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

impl std::error::Error for CompileError {}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// An operation failed. Logical operators ignore the failure if another operand decides.
    Failed(String),
    /// The cost limit was exceeded. This always ends the evaluation.
    OutOfBudget,
}

impl EvaluationError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        EvaluationError::Failed(message.into())
    }

    /// No overload of a function accepts these arguments.
    pub(crate) fn no_overload() -> Self {
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

impl std::error::Error for EvaluationError {}
