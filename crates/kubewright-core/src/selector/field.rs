//! Field selectors.

use std::{fmt, str::FromStr};

use super::SelectorError;
use crate::{List, Str};

/// Selects objects whose fields meet all requirements.
///
/// The default selects everything. The supported fields depend on the kind; all kinds support
/// `metadata.name` and `metadata.namespace`.
///
/// ```
/// use kubewright_core::FieldSelector;
/// let selector: FieldSelector = "spec.nodeName=n1,status.phase!=Failed".parse()?;
/// assert!(selector.matches(|field| match field {
///     "spec.nodeName" => Some("n1"),
///     "status.phase" => Some("Running"),
///     _ => None,
/// }));
/// assert_eq!(selector.requires_exact_match("spec.nodeName"), Some("n1"));
/// # Ok::<(), kubewright_core::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    /// Invariant: sorted.
    requirements: List<FieldRequirement>,
}

/// One term of a field selector: a field equals, or differs from, a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The path of the field, such as `metadata.name`.
    pub field: Str,
    /// The value, unescaped.
    pub value: Str,
    /// Whether the field must differ from the value.
    pub negated: bool,
}

impl FieldSelector {
    /// Selects every object.
    #[inline]
    pub fn everything() -> Self {
        FieldSelector::default()
    }

    /// Also requires that the field equals the value.
    #[must_use]
    #[doc(alias = "OneTermEqualSelector")]
    pub fn equals(self, field: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.with(FieldRequirement { field: field.into(), value: value.into(), negated: false })
    }

    /// Also requires that the field differs from the value.
    #[must_use]
    #[doc(alias = "OneTermNotEqualSelector")]
    pub fn not_equals(self, field: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.with(FieldRequirement { field: field.into(), value: value.into(), negated: true })
    }

    /// Adds a requirement.
    #[must_use]
    #[doc(alias = "AndSelectors")]
    #[inline]
    pub fn with(mut self, requirement: FieldRequirement) -> Self {
        let at = self.requirements.partition_point(|have| *have <= requirement);
        self.requirements.insert(at, requirement);
        self
    }

    /// Whether an object matches whose fields have the values of `value_of`.
    ///
    /// A field without a value counts as empty. Unsupported fields are not detected here: check
    /// [`requirements`](FieldSelector::requirements) first.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value_of(&requirement.field).unwrap_or_default();
            (requirement.value == *value) != requirement.negated
        })
    }

    /// Whether it has no requirements.
    #[doc(alias = "Empty")]
    #[inline]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Its requirements, sorted by field.
    #[inline]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The only value that `field` may have.
    #[doc(alias = "RequiresExactMatch")]
    #[inline]
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|one| one.field == field && !one.negated)?;
        Some(&requirement.value)
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    /// Parses terms `a=b`, `a==b` and `a!=b` separated by commas.
    ///
    /// In a value, `\,` `\=` and `\\` are an escaped comma, equals sign and backslash.
    #[inline]
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut selector = FieldSelector::everything();
        for term in split_terms(text).into_iter().filter(|term| !term.is_empty()) {
            let cannot_understand =
                || SelectorError::new(format!("invalid selector: '{text}'; can't understand '{term}'"));
            // The operator starts at the first equals sign, or at an exclamation mark just before
            // it.
            let equals = term.find('=').ok_or_else(cannot_understand)?;
            let (field, negated) = match term[..equals].strip_suffix('!') {
                Some(field) => (field, true),
                None => (&term[..equals], false),
            };
            let value = &term[equals + 1..];
            let value = if negated { value } else { value.strip_prefix('=').unwrap_or(value) };
            selector = selector.with(FieldRequirement { field: field.into(), value: unescape(value)?, negated });
        }
        Ok(selector)
    }
}

/// Terms `field=value` or `field!=value`, separated by commas, with escaped values.
impl fmt::Display for FieldSelector {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        f.write_str(&self.field)?;
        f.write_str(if self.negated { "!=" } else { "=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

/// Splits at unescaped commas; escapes stay.
#[inline]
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

#[inline]
fn unescape(value: &str) -> Result<Str, SelectorError> {
    let bad_escape =
        |sequence: &str| SelectorError::new(format!("invalid field selector: invalid escape sequence: {sequence}"));
    if !value.contains(['\\', ',', '=']) {
        return Ok(value.into());
    }
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => unescaped.push(c),
                Some(c) => return Err(bad_escape(&format!("\\{c}"))),
                None => return Err(bad_escape("\\")),
            },
            ',' | '=' => {
                let problem = format!("invalid field selector: unescaped character in value: {}", u32::from(c));
                return Err(SelectorError::new(problem));
            }
            c => unescaped.push(c),
        }
    }
    Ok(unescaped.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_read_and_printed() {
        for (text, want) in [
            ("", ""),
            (",", ""),
            ("x=a", "x=a"),
            ("x==a", "x=a"),
            ("x!=a", "x!=a"),
            ("z=1,a!=2,b==3", "a!=2,b=3,z=1"),
            ("x=", "x="),
            ("x!=", "x!="),
            ("=a", "=a"),
            ("x=a,,y=b", "x=a,y=b"),
            ("x= a ", "x= a "),
            (r"x=a\,b\=c\\d", r"x=a\,b\=c\\d"),
            (r"x=\,", r"x=\,"),
            (r"x=\\,y=b", r"x=\\,y=b"),
            ("x=!a", "x=!a"),
            ("a!b=c", "a!b=c"),
            ("x", "error: invalid selector: 'x'; can't understand 'x'"),
            ("x=a,y!", "error: invalid selector: 'x=a,y!'; can't understand 'y!'"),
            ("x===a", "error: invalid field selector: unescaped character in value: 61"),
            ("x!==a", "error: invalid field selector: unescaped character in value: 61"),
            ("x=a=b", "error: invalid field selector: unescaped character in value: 61"),
            (r"x=a\b", r"error: invalid field selector: invalid escape sequence: \b"),
            (r"x=a\", r"error: invalid field selector: invalid escape sequence: \"),
        ] {
            let got = match text.parse::<FieldSelector>() {
                Ok(selector) => selector.to_string(),
                Err(error) => format!("error: {error}"),
            };
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn escapes_are_taken_off_values() {
        let selector: FieldSelector = r"x=a\,b\=c\\".parse().unwrap();
        assert_eq!(selector.requires_exact_match("x"), Some(r"a,b=c\"));
    }

    #[test]
    fn a_field_without_value_counts_as_empty() {
        for (text, want) in
            [("a=", true), ("a!=", false), ("a=x", false), ("a!=x", true), ("b=y", true), ("b=y,a=x", false)]
        {
            let selector: FieldSelector = text.parse().unwrap();
            assert_eq!(selector.matches(|field| (field == "b").then_some("y")), want, "{text}");
        }
    }

    #[test]
    fn only_equality_is_an_exact_match() {
        let selector = FieldSelector::everything().not_equals("a", "1").equals("b", "2");
        assert_eq!(["a", "b", "c"].map(|field| selector.requires_exact_match(field)), [None, Some("2"), None]);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_gives_the_selector_back(terms in proptest::collection::vec(("[a-c]{1,2}(\\.[a-c])?", "[a,=\\\\! ]{0,6}", any::<bool>()), 0..5)) {
            let built = terms.iter().fold(FieldSelector::everything(), |selector, (field, value, negated)| {
                selector.with(FieldRequirement { field: field.into(), value: value.into(), negated: *negated })
            });
            prop_assert_eq!(built.to_string().parse::<FieldSelector>().unwrap(), built);
        }

        #[test]
        fn matching_agrees_with_the_naive_reading(terms in proptest::collection::vec(("[ab]", "[xy]?", any::<bool>()), 0..4), a in "[xy]?", b in "[xy]?") {
            let selector = terms.iter().fold(FieldSelector::everything(), |selector, (field, value, negated)| {
                if *negated { selector.not_equals(field, value) } else { selector.equals(field, value) }
            });
            let want = terms.iter().all(|(field, value, negated)| (value == if field == "a" { &a } else { &b }) != *negated);
            prop_assert_eq!(selector.matches(|field| Some(if field == "a" { &a } else { &b })), want);
        }

        #[test]
        fn no_input_causes_a_panic(text in "[ab,!=\\\\é]{0,16}") {
            if let Ok(selector) = text.parse::<FieldSelector>() {
                prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
            }
        }
    }
}
