//! Label selectors.

use std::{fmt, str::FromStr};

use super::{Operator, Requirement, SelectorError, parser};
use crate::meta::v1::LabelSelector;
use crate::names::quote::Quoted;
use crate::{List, Map, Str};

/// Selects objects whose labels meet all requirements.
///
/// The default selects everything. Parses and prints the syntax of the API and of `kubectl -l`.
///
/// ```
/// use kubewright_core::{Map, Selector, Str};
/// let selector: Selector = "app=shop, tier in (web, cache), !canary".parse()?;
/// assert_eq!(selector.to_string(), "app=shop,!canary,tier in (cache,web)");
/// let labels: Map<Str> = [("app", "shop".into()), ("tier", "web".into())].into();
/// assert!(selector.matches(&labels));
/// # Ok::<(), kubewright_core::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// Invariant: sorted by key; `None` selects nothing.
    requirements: Option<List<Requirement>>,
}

impl Selector {
    /// Selects every object.
    #[inline]
    pub fn everything() -> Self {
        Selector { requirements: Some(List::new()) }
    }

    /// Selects no object, whatever requirements are added.
    #[inline]
    pub fn nothing() -> Self {
        Selector { requirements: None }
    }

    /// Selects objects that have all these labels; every object if the map is empty.
    ///
    /// # Errors
    /// If a key or a value is not a valid label. Labels of stored objects always are.
    #[doc(alias = "ValidatedSelectorFromSet")]
    #[doc(alias = "SelectorFromSet")]
    #[inline]
    pub fn from_set(labels: &Map<Str>) -> Result<Self, SelectorError> {
        labels.iter().map(|(key, value)| Requirement::equals(key, value)).collect()
    }

    /// Converts a selector in an object, such as a Deployment's `spec.selector`.
    ///
    /// An absent selector selects nothing, an empty one everything.
    ///
    /// # Errors
    /// If a key, a value or an operator is invalid, or an operator has the wrong number of values.
    ///
    /// ```
    /// use kubewright_core::{Selector, meta::v1::LabelSelector};
    /// assert_eq!(Selector::from_label_selector(None)?, Selector::nothing());
    /// assert_eq!(Selector::from_label_selector(Some(&LabelSelector::default()))?, Selector::everything());
    /// # Ok::<(), kubewright_core::selector::SelectorError>(())
    /// ```
    #[doc(alias = "LabelSelectorAsSelector")]
    #[inline]
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Selector::nothing());
        };
        let labels = selector.match_labels.iter().map(|(key, value)| Requirement::equals(key, value));
        let expressions = selector.match_expressions.iter().map(|expression| {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let other = Quoted(other);
                    return Err(SelectorError::new(format!("{other} is not a valid label selector operator")));
                }
            };
            Requirement::new(&expression.key, operator, &expression.values)
        });
        labels.chain(expressions).collect()
    }

    /// Adds a requirement.
    #[must_use]
    #[doc(alias = "Add")]
    #[inline]
    pub fn with(mut self, requirement: Requirement) -> Self {
        if let Some(requirements) = &mut self.requirements {
            let at = requirements.partition_point(|have| have.key() <= requirement.key());
            requirements.insert(at, requirement);
        }
        self
    }

    /// Whether an object with these labels is selected.
    #[inline]
    pub fn matches(&self, labels: &Map<Str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
            None => false,
        }
    }

    /// Whether it has no requirements.
    #[doc(alias = "Empty")]
    #[inline]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether it is [`nothing`](Selector::nothing).
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// Its requirements, sorted by key; `None` for a selector of nothing.
    #[inline]
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// The only value that the first requirement on `label` allows.
    #[doc(alias = "RequiresExactMatch")]
    #[inline]
    pub fn requires_exact_match(&self, label: &str) -> Option<&str> {
        let requirement = self.requirements()?.iter().find(|requirement| requirement.key() == label)?;
        match (requirement.operator(), requirement.values()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Default for Selector {
    #[inline]
    fn default() -> Self {
        Selector::everything()
    }
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut requirements: List<Requirement> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Selector { requirements: Some(requirements) }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    #[inline]
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Ok(parser::parse(text)?.into_iter().collect())
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = SelectorError;

    #[inline]
    fn try_from(selector: &LabelSelector) -> Result<Self, SelectorError> {
        Selector::from_label_selector(Some(selector))
    }
}

/// Requirements sorted by key, values sorted alphabetically.
///
/// A selector of nothing has no syntax. It prints as a contradiction, so that a server selects
/// nothing too; in Go it prints as the empty text, which selects everything.
impl fmt::Display for Selector {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(requirements) = &self.requirements else {
            return f.write_str("nothing,!nothing");
        };
        for (at, requirement) in requirements.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::meta::v1::LabelSelectorRequirement;

    fn labels(entries: &[(&str, &str)]) -> Map<Str> {
        entries.iter().map(|&(key, value)| (key, Str::from(value))).collect()
    }

    #[test]
    fn a_text_is_read_and_printed_in_canonical_form() {
        for (text, want) in [
            ("", ""),
            ("  \t\r\n ", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            ("z=c,x=a", "x=a,z=c"),
            ("x!=a,y=b", "x!=a,y=b"),
            ("x=", "x="),
            ("x= ", "x="),
            ("x=,z= ", "x=,z="),
            ("x!=,y", "x!=,y"),
            ("x==a", "x==a"),
            ("x= ==b", "error: unable to parse requirement: found '==', expected: identifier"),
            ("x>1", "x>1"),
            ("x>1,z<5", "x>1,z<5"),
            ("x > 1", "x>1"),
            ("  x = a , y  ", "x=a,y"),
            ("!x", "!x"),
            ("!  x", "!x"),
            ("x,!y,z=a", "x,!y,z=a"),
            ("x in (a)", "x in (a)"),
            ("x in(b,a,b)", "x in (a,b)"),
            ("x in ()", "x in ()"),
            ("x in (,)", "x in ()"),
            ("x in (,a)", "x in (,a)"),
            ("x in (a,,b)", "x in (,a,b)"),
            ("x in (a,)", "x in (,a)"),
            ("x notin (a , b),y in (c)", "x notin (a,b),y in (c)"),
            ("x notin ()", "x notin ()"),
            ("in in (in, notin)", "in in (in,notin)"),
            ("notin=in,in", "in,notin=in"),
            ("x=in,notin", "notin,x=in"),
            ("a.example.com/b=c", "a.example.com/b=c"),
            ("x=a,x=b", "x=a,x=b"),
            ("x,,y", "error: found ',', expected: identifier after ','"),
            ("app=web,,", "error: found ',', expected: identifier after ','"),
            ("x=a,", "error: found '', expected: identifier after ','"),
            (",x", "error: found ',', expected: !, identifier, or 'end of string'"),
            ("=a", "error: found '=', expected: !, identifier, or 'end of string'"),
            ("(x)", "error: found '(', expected: !, identifier, or 'end of string'"),
            ("x=a||y=b", "error: unable to parse requirement: values[0][x]: Invalid value: \"a||y\": a valid label"),
            ("x a", "error: unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt"),
            ("x=a b", "error: found 'b', expected: ',' or 'end of string'"),
            ("!x in (a)", "error: found 'in', expected: ',' or 'end of string'"),
            ("!x=a", "error: found '=', expected: ',' or 'end of string'"),
            ("!", "error: unable to parse requirement: found '', expected: identifier"),
            ("!!x", "error: unable to parse requirement: found '!', expected: identifier"),
            ("x=!a", "error: unable to parse requirement: found '!', expected: identifier"),
            ("app>>web", "error: unable to parse requirement: found '>', expected: identifier"),
            ("app>=1", "error: unable to parse requirement: found '=', expected: identifier"),
            ("app in (web", "error: unable to parse requirement: found '', expected: ',' or ')'"),
            ("app in web", "error: unable to parse requirement: found 'web' expected: '('"),
            ("app in", "error: unable to parse requirement: found '' expected: '('"),
            ("app in (", "error: unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("app in (=)", "error: unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("app in (a b)", "error: unable to parse requirement: found 'b', expected: ',' or ')'"),
            ("app in (a,(b))", "error: unable to parse requirement: found '(', expected: ',', or identifier"),
            ("x in (,,)", "error: unable to parse requirement: found ')', expected: ',', or identifier"),
            ("app in (a))", "error: found ')', expected: ',' or 'end of string'"),
            (
                "-app=web",
                "error: unable to parse requirement: <nil>: Invalid value: \"-app\": name part must consist of",
            ),
            ("a/b/c", "error: unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a qualified name must"),
            ("app=web_", "error: unable to parse requirement: values[0][app]: Invalid value: \"web_\": a valid label"),
            (
                "app>x",
                "error: unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("app>", "error: unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators"),
            ("a\0b", "error: unable to parse requirement: <nil>: Invalid value: \"a\\x00b\": name part must"),
        ] {
            let got = match text.parse::<Selector>() {
                Ok(selector) => selector.to_string(),
                Err(error) => format!("error: {error}"),
            };
            if want.starts_with("error: ") {
                assert!(got.starts_with(want), "{text:?} gave {got:?}");
            } else {
                assert_eq!(got, want, "{text:?}");
            }
        }
    }

    #[test]
    fn objects_are_selected_by_their_labels() {
        for (text, entries, want) in [
            ("", &[("x", "y")][..], true),
            ("", &[], true),
            ("x=y", &[("x", "y")], true),
            ("x=y", &[("x", "z")], false),
            ("x=y", &[], false),
            ("x=", &[("x", "")], true),
            ("x=", &[], false),
            ("x!=y", &[("x", "z")], true),
            ("x!=y", &[], true),
            ("x!=y", &[("x", "y")], false),
            ("x=y,z=w", &[("x", "y"), ("z", "w")], true),
            ("x=y,z=w", &[("x", "y"), ("z", "x")], false),
            ("x in (a,b)", &[("x", "b")], true),
            ("x in (a,b)", &[("x", "c")], false),
            ("x in (a,b)", &[("y", "a")], false),
            ("x notin (a,b)", &[("x", "c")], true),
            ("x notin (a,b)", &[("y", "a")], true),
            ("x notin (a,b)", &[("x", "a")], false),
            ("x", &[("x", "")], true),
            ("x", &[("y", "")], false),
            ("!x", &[("y", "")], true),
            ("!x", &[("x", "")], false),
            ("x>1", &[("x", "2")], true),
            ("x>1", &[("x", "1")], false),
            ("x>1", &[("x", "two")], false),
            ("x>1", &[], false),
            ("x<8", &[("x", "7")], true),
            ("x<8", &[("x", "10")], false),
            ("x>9", &[("x", "10")], true),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(&labels(entries)), want, "{text} {entries:?}");
        }
    }

    #[test]
    fn a_selector_that_matches_nothing_never_becomes_match_all() {
        // ST-18
        let nothing = Selector::nothing().with(Requirement::exists("x").unwrap());
        assert!(nothing.is_nothing() && !nothing.is_everything() && nothing.requirements().is_none());
        let sent: Selector = nothing.to_string().parse().unwrap();
        for entries in [&[][..], &[("x", "")], &[("nothing", "")]] {
            assert!(!nothing.matches(&labels(entries)) && !sent.matches(&labels(entries)));
        }
        assert!(Selector::default().is_everything());
    }

    #[test]
    fn label_selectors_of_objects() {
        let expression = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|&value| value.into()).collect(),
        };
        let selector = LabelSelector {
            match_labels: labels(&[("foo", "bar")]),
            match_expressions: [
                expression("baz", "In", &["qux", "norf"]),
                expression("abc", "NotIn", &["x"]),
                expression("zoo", "Exists", &[]),
                expression("no", "DoesNotExist", &[]),
            ]
            .into(),
        };
        let parsed = Selector::try_from(&selector).unwrap();
        assert_eq!(parsed.to_string(), "abc notin (x),baz in (norf,qux),foo=bar,!no,zoo");
        for (bad, want) in [
            (expression("a", "Near", &["x"]), "\"Near\" is not a valid label selector operator"),
            (expression("a", "in", &["x"]), "\"in\" is not a valid label selector operator"),
            (
                expression("a", "In", &[]),
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (expression("a", "Exists", &["x"]), "values: Invalid value: [\"x\"]: values set must be empty"),
        ] {
            let selector = LabelSelector { match_expressions: [bad].into(), ..Default::default() };
            let error = Selector::try_from(&selector).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn exact_matches_are_found() {
        let selector: Selector = "a=1,b in (2),c in (3,4),d!=5,e==6".parse().unwrap();
        let found = ["a", "b", "c", "d", "e", "f"].map(|label| selector.requires_exact_match(label));
        assert_eq!(found, [Some("1"), Some("2"), None, None, Some("6"), None]);
    }

    fn any_requirement() -> impl Strategy<Value = Requirement> {
        let key = "(a|b|in|notin|x\\.y/a)";
        let values = proptest::collection::vec("(a|b|in|[0-4])?", 1..4);
        (key, 0..9u8, values, 0..5i64).prop_map(|(key, operator, values, bound)| {
            match operator {
                0 => Requirement::equals(key, &values[0]),
                1 => Requirement::new(key, Operator::DoubleEquals, &values[..1]),
                2 => Requirement::not_equals(key, &values[0]),
                3 => Requirement::is_in(key, values),
                4 => Requirement::not_in(key, values),
                5 => Requirement::exists(key),
                6 => Requirement::does_not_exist(key),
                7 => Requirement::greater_than(key, bound),
                _ => Requirement::less_than(key, bound),
            }
            .unwrap()
        })
    }

    /// A reference implementation that evaluates the text of a requirement.
    fn naive(requirement: &str, labels: &std::collections::BTreeMap<String, String>) -> bool {
        let value = |key: &str| labels.get(key).map(String::as_str);
        let among = |key: &str, list: &str| value(key).is_some_and(|value| list.split(',').any(|one| one == value));
        let number = |text: &str| text.parse::<i64>().ok();
        if let Some((key, list)) = requirement.split_once(" notin (") {
            !among(key, list.trim_end_matches(')'))
        } else if let Some((key, list)) = requirement.split_once(" in (") {
            among(key, list.trim_end_matches(')'))
        } else if let Some((key, want)) = requirement.split_once("!=") {
            value(key) != Some(want)
        } else if let Some((key, want)) = requirement.split_once("==").or_else(|| requirement.split_once('=')) {
            value(key) == Some(want)
        } else if let Some((key, bound)) = requirement.split_once('>') {
            value(key).and_then(number).is_some_and(|number| number > bound.parse().unwrap())
        } else if let Some((key, bound)) = requirement.split_once('<') {
            value(key).and_then(number).is_some_and(|number| number < bound.parse().unwrap())
        } else if let Some(key) = requirement.strip_prefix('!') {
            value(key).is_none()
        } else {
            value(requirement).is_some()
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_gives_the_selector_back(requirements in proptest::collection::vec(any_requirement(), 0..5)) {
            let selector: Selector = requirements.iter().cloned().collect();
            prop_assert_eq!(&selector.to_string().parse::<Selector>().unwrap(), &selector);
            let grown = requirements.into_iter().fold(Selector::everything(), Selector::with);
            prop_assert_eq!(grown, selector);
        }

        #[test]
        fn matching_agrees_with_the_naive_reading(
            requirements in proptest::collection::vec(any_requirement(), 0..3),
            labels in proptest::collection::btree_map("(a|b|in|notin|x\\.y/a)", "(a|b|in|[0-4])?", 0..4),
        ) {
            let want = requirements.iter().all(|requirement| naive(&requirement.to_string(), &labels));
            let selector: Selector = requirements.into_iter().collect();
            let labels: Map<Str> = labels.into_iter().map(|(key, value)| (key, Str::from(value))).collect();
            prop_assert_eq!(selector.matches(&labels), want, "{} {:?}", selector, labels);
        }

        #[test]
        fn no_input_causes_a_panic(text in "[ab,!=<>() in\\PC\0]{0,20}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse::<Selector>().unwrap(), selector);
            }
        }
    }
}
