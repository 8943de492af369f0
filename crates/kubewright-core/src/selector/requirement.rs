//! One term of a label selector: key, operator and values.

use std::fmt;

use super::SelectorError;
use crate::names::quote::Quoted;
use crate::{List, Map, Str, validation};

/// The operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `key=value`
    Equals,
    /// `key==value`, the same as `key=value`.
    DoubleEquals,
    /// `key!=value`: a different value, or no such label.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`: a different value, or no such label.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`: the label is a greater integer.
    GreaterThan,
    /// `key<1`: the label is a smaller integer.
    LessThan,
}

/// One term of a label selector; always valid, so it can be sent to a server.
///
/// ```
/// use kubewright_core::selector::{Requirement, Selector};
/// let tier = Requirement::is_in("tier", ["web", "cache"])?;
/// let selector = Selector::everything().with(tier).with(Requirement::exists("app")?);
/// assert_eq!(selector.to_string(), "app,tier in (cache,web)");
/// # Ok::<(), kubewright_core::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: Str,
    operator: Operator,
    /// Invariant: sorted, without duplicates, as many as the operator requires.
    values: List<Str>,
}

impl Requirement {
    /// A requirement with any operator.
    ///
    /// # Errors
    /// If the key or a value is not a valid label, or the number of values does not match the
    /// operator: none for `Exists` and `DoesNotExist`, at least one for `In` and `NotIn`, exactly
    /// one for all others, which must be an integer for `GreaterThan` and `LessThan`.
    #[doc(alias = "NewRequirement")]
    pub fn new<V: Into<Str>>(
        key: impl Into<Str>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        Requirement::checked(key.into(), operator, values.into_iter().map(Into::into).collect())
    }

    #[inline]
    fn checked(key: Str, operator: Operator, mut values: Vec<Str>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        if let Some(error) = key_error(&key) {
            errors.push(format!("key: {error}"));
        }
        if let Some(error) = operator_error(operator, &values) {
            errors.push(error);
        }
        for (at, value) in values.iter().enumerate() {
            let complaints = validation::label_value(value).join("; ");
            if !complaints.is_empty() {
                errors.push(format!("values[{at}][{key}]: Invalid value: {}: {complaints}", Quoted(value)));
            }
        }
        match &errors[..] {
            [] => {}
            [one] => return Err(SelectorError::new(one.as_str())),
            many => return Err(SelectorError::new(format!("[{}]", many.join(", ")))),
        }
        values.sort();
        values.dedup();
        Ok(Requirement { key, operator, values: values.into() })
    }

    /// The label has this value.
    pub fn equals(key: impl Into<Str>, value: impl Into<Str>) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::Equals, [value])
    }

    /// The label has a different value, or does not exist.
    pub fn not_equals(key: impl Into<Str>, value: impl Into<Str>) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::NotEquals, [value])
    }

    /// The label has one of these values.
    pub fn is_in<V: Into<Str>>(
        key: impl Into<Str>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::In, values)
    }

    /// The label has none of these values, or does not exist.
    pub fn not_in<V: Into<Str>>(
        key: impl Into<Str>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::NotIn, values)
    }

    /// The label exists.
    pub fn exists(key: impl Into<Str>) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::Exists, [""; 0])
    }

    /// The label does not exist.
    pub fn does_not_exist(key: impl Into<Str>) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::DoesNotExist, [""; 0])
    }

    /// The label is an integer greater than `bound`, which must not be negative, because labels
    /// cannot be.
    pub fn greater_than(key: impl Into<Str>, bound: i64) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::GreaterThan, [bound.to_string()])
    }

    /// The label is an integer less than `bound`, which must not be negative, because labels cannot
    /// be.
    pub fn less_than(key: impl Into<Str>, bound: i64) -> Result<Self, SelectorError> {
        Requirement::new(key, Operator::LessThan, [bound.to_string()])
    }

    /// The label key.
    #[inline]
    pub fn key(&self) -> &Str {
        &self.key
    }

    /// The operator.
    #[inline]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, in alphabetical order.
    #[inline]
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// Whether these labels meet the requirement.
    #[inline]
    pub fn matches(&self, labels: &Map<Str>) -> bool {
        let label = labels.get(&self.key);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                label.is_some_and(|label| self.values.contains(label))
            }
            Operator::NotIn | Operator::NotEquals => label.is_none_or(|label| !self.values.contains(label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compare(label, |label, bound| label > bound),
            Operator::LessThan => self.compare(label, |label, bound| label < bound),
        }
    }

    fn compare(&self, label: Option<&Str>, holds: impl FnOnce(i64, i64) -> bool) -> bool {
        let label = label.and_then(|label| label.parse().ok());
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        label.zip(bound).is_some_and(|(label, bound)| holds(label, bound))
    }
}

impl fmt::Display for Requirement {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, between, after) = match self.operator {
            Operator::Equals => ("", "=", ""),
            Operator::DoubleEquals => ("", "==", ""),
            Operator::NotEquals => ("", "!=", ""),
            Operator::In => ("", " in (", ")"),
            Operator::NotIn => ("", " notin (", ")"),
            Operator::Exists => ("", "", ""),
            Operator::DoesNotExist => ("!", "", ""),
            Operator::GreaterThan => ("", ">", ""),
            Operator::LessThan => ("", "<", ""),
        };
        write!(f, "{before}{}{between}", self.key)?;
        for (at, value) in self.values.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            f.write_str(value)?;
        }
        f.write_str(after)
    }
}

/// The error in a key, if any, without its position.
#[inline]
pub(super) fn key_error(key: &str) -> Option<String> {
    let complaints = validation::qualified_name(key).join("; ");
    (!complaints.is_empty()).then(|| format!("Invalid value: {}: {complaints}", Quoted(key)))
}

#[inline]
fn operator_error(operator: Operator, values: &[Str]) -> Option<String> {
    let rule = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => "for 'in', 'notin' operators, values set can't be empty",
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            "exact-match compatibility requires one single value"
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        Operator::GreaterThan | Operator::LessThan => match values {
            [value] if value.parse::<i64>().is_ok() => return None,
            [value] => {
                let value = Quoted(value);
                return Some(format!(
                    "values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer"
                ));
            }
            _ => "for 'Gt', 'Lt' operators, exactly one value is required",
        },
        _ => return None,
    };
    let values: Vec<String> = values.iter().map(|value| Quoted(value).to_string()).collect();
    Some(format!("values: Invalid value: [{}]: {rule}", values.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_takes_its_number_of_values() {
        use Operator::*;
        let long = "a".repeat(254);
        for (key, operator, values, good) in [
            ("x", In, &["a", "b"][..], true),
            ("x", In, &[], false),
            ("x", NotIn, &[""], true),
            ("x", NotIn, &[], false),
            ("x", Equals, &["a"], true),
            ("x", Equals, &[], false),
            ("x", DoubleEquals, &["a", "b"], false),
            ("x", NotEquals, &["a", "b"], false),
            ("x", Exists, &[], true),
            ("x", Exists, &["a"], false),
            ("x", DoesNotExist, &[], true),
            ("x", DoesNotExist, &["a"], false),
            ("x", GreaterThan, &["1"], true),
            ("x", GreaterThan, &["1.1"], false),
            ("x", GreaterThan, &[], false),
            ("x", LessThan, &["1", "2"], false),
            ("x", LessThan, &["-1"], false),
            (&long, Exists, &[], false),
            ("x", In, &[&long], false),
            ("a b", Exists, &[], false),
        ] {
            let made = Requirement::new(key, operator, values.iter().copied());
            assert_eq!(made.is_ok(), good, "{key} {operator:?} {values:?}: {made:?}");
        }
    }

    #[test]
    fn errors_name_the_offender_and_its_place() {
        let message = |made: Result<Requirement, SelectorError>| made.unwrap_err().to_string();
        assert!(
            message(Requirement::exists("-x")).starts_with("key: Invalid value: \"-x\": name part must consist of")
        );
        let value = message(Requirement::is_in("app", ["ok", "web_"]));
        assert!(value.starts_with("values[1][app]: Invalid value: \"web_\": a valid label must be"), "{value}");
        assert_eq!(
            message(Requirement::new("app", Operator::Exists, ["a"])),
            "values: Invalid value: [\"a\"]: values set must be empty for exists and does not exist"
        );
        assert!(message(Requirement::is_in("-x", [""; 0])).starts_with("[key: Invalid value"));
    }
}
