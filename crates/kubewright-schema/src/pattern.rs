//! `pattern`: regular expressions that strings have to match.

use kubewright_cel::go_regex::GoRegex;

/// A pattern that strings have to match somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    /// Absent if the pattern does not compile.
    regex: Option<GoRegex>,
}

impl Pattern {
    /// Compiles a pattern, or returns the error message.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let regex = GoRegex::compile(text).map_err(|error| format!("error parsing regexp: {error}"))?;
        Ok(Pattern { text: text.to_owned(), regex: Some(regex) })
    }

    /// Compiles a pattern of a stored definition. If it is invalid, no string matches.
    ///
    /// Accepting every string instead would silently lift a restriction.
    pub(crate) fn of_stored(text: &str) -> Self {
        Pattern::new(text).unwrap_or_else(|_| Pattern { text: text.to_owned(), regex: None })
    }

    /// Whether a string contains a match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// The source of the pattern.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_pattern_is_an_error_and_matches_nothing() {
        assert!(Pattern::new(r"\p{Nonsense}").is_err() && Pattern::new("(").is_err());
        let pattern = Pattern::of_stored("(");
        assert!(!pattern.is_match("(") && !pattern.is_match(""));
        assert_eq!(pattern.as_str(), "(");
    }

    #[test]
    fn unicode_classes_are_supported() {
        let letters = Pattern::new(r"^\p{L}+$").expect("Go accepts it");
        assert!(letters.is_match("größe") && !letters.is_match("größe2"));
        let pattern = Pattern::new(r"^[\p{Greek}\pN]+$").expect("Go accepts it");
        assert!(pattern.is_match("λ4") && !pattern.is_match("l4"));
    }
}
