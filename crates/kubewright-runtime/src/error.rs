//! Errors of user code, and how they are printed.

/// The error type of reconcilers.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
