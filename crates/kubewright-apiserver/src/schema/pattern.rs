//! Regular expressions of schemas.

use regex_lite::Regex;

use crate::regex;

/// A pattern that texts have to match somewhere.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// None for one that we cannot try and that therefore matches everything.
    regex: Option<Regex>,
}

impl Pattern {
    /// Reads a pattern, or says what is wrong with it.
    ///
    /// Classes of Unicode such as `\p{L}` are accepted and not checked: the tables behind them are not worth their size.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let regex = match regex::compile(text) {
            Ok(regex) => Some(regex),
            Err(_) if text.contains(r"\p") || text.contains(r"\P") => None,
            Err(error) => return Err(format!("error parsing regexp: {error}")),
        };
        Ok(Pattern { text: text.to_owned(), regex })
    }

    /// Whether a text has the pattern in it.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    /// The pattern as it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}
