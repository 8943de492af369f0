//! Regular expressions of schemas.

use ::regex::Regex;

use crate::regex;

/// A pattern that texts have to match somewhere.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// Absent if it does not compile. Then no text matches.
    regex: Option<Regex>,
}

impl Pattern {
    /// Reads a pattern, or says what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let regex = regex::compile(text).map_err(|error| format!("error parsing regexp: {error}"))?;
        Ok(Pattern { text: text.to_owned(), regex: Some(regex) })
    }

    /// Reads a pattern of a definition that was accepted before, perhaps by another version of this
    /// server.
    ///
    /// One that does not compile matches no text: to accept everything would undo a restriction
    /// silently.
    pub(super) fn accepted_before(text: &str) -> Self {
        Pattern::new(text).unwrap_or_else(|_| Pattern { text: text.to_owned(), regex: None })
    }

    /// Whether a text has the pattern in it.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// The pattern as it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_does_not_compile_is_an_error_and_matches_nothing() {
        assert!(Pattern::new(r"\p{Nonsense}").is_err() && Pattern::new("(").is_err());
        let pattern = Pattern::accepted_before("(");
        assert!(!pattern.is_match("(") && !pattern.is_match(""));
        assert_eq!(pattern.as_str(), "(");
    }

    #[test]
    fn classes_of_unicode_are_checked() {
        let letters = Pattern::new(r"^\p{L}+$").expect("Go takes it");
        assert!(letters.is_match("größe") && !letters.is_match("größe2"));
        let pattern = Pattern::new(r"^[\p{Greek}\pN]+$").expect("Go takes it");
        assert!(pattern.is_match("λ4") && !pattern.is_match("l4"));
    }
}
