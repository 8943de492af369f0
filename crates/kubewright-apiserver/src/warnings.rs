//! Response warnings, limited like those of kube-apiserver.
//!
//! Duplicates are dropped. If all of them together exceed [`MAX_TOTAL`] characters, each is
//! truncated to [`MAX_TRUNCATED`], and those beyond the total are dropped. So a request cannot
//! cause a response with more headers than a client accepts.

use std::collections::HashSet;

/// Total characters above which warnings are truncated.
const MAX_TOTAL: usize = 4 << 10;
/// Maximum characters of a truncated warning.
const MAX_TRUNCATED: usize = 256;

/// The warnings of one response, in order.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    known: HashSet<String>,
    ordered: Vec<String>,
    /// Total characters to be sent.
    length: usize,
    is_cutting: bool,
}

impl Warnings {
    pub(crate) fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        let is_full = self.is_cutting && self.length >= MAX_TOTAL;
        if is_full || text.is_empty() || !self.known.insert(text.clone()) {
            return;
        }
        self.length += self.shown(&text).chars().count();
        self.ordered.push(text);
        if !self.is_cutting && self.length > MAX_TOTAL {
            self.is_cutting = true;
            self.length = self.texts().map(|text| text.chars().count()).sum();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// The warnings to be sent.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|text| self.shown(text))
    }

    fn shown<'a>(&self, text: &'a str) -> &'a str {
        let end = text.char_indices().nth(MAX_TRUNCATED).filter(|_| self.is_cutting);
        end.map_or(text, |(end, _)| &text[..end])
    }
}

impl Extend<String> for Warnings {
    fn extend<I: IntoIterator<Item = String>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.add(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warning_is_sent_once_and_whole_while_they_are_few() {
        let mut warnings = Warnings::default();
        let long = "x".repeat(MAX_TOTAL);
        warnings.extend([long.clone(), long.clone(), String::new()]);
        assert_eq!(warnings.texts().collect::<Vec<_>>(), [&*long]);
    }

    #[test]
    fn many_warnings_are_cut_and_then_dropped() {
        let mut warnings = Warnings::default();
        warnings.extend((0..100_000).map(|number| format!("{number} {}", "ä".repeat(1000))));
        let texts: Vec<&str> = warnings.texts().collect();
        assert!(texts.iter().all(|text| text.chars().count() == MAX_TRUNCATED));
        assert_eq!(texts.len(), MAX_TOTAL / MAX_TRUNCATED);
        assert!(texts[0].starts_with("0 ") && texts[15].starts_with("15 "));
    }
}
