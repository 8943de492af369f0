//! Evaluates JSON paths such as `.status.conditions[?(@.type=="Ready")].status`.

use std::cmp::Ordering;
use std::str::FromStr;

use kubewright_core::Value;

use super::parser::{JsonPathError, parse};

/// Maximum number of values during evaluation, which each `..` multiplies.
const MAX_VALUES: usize = 10_000;

/// A JSON path in the dialect of kubectl.
///
/// ```
/// use kubewright_printers::JsonPath;
/// let path: JsonPath = r#".conditions[?(@.type=="Ready")].status"#.parse()?;
/// let object = r#"{"conditions": [{"type": "Ready", "status": "True"}]}"#.parse()?;
/// assert_eq!(path.first(&object).and_then(|value| value.as_str()), Some("True"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PathStep {
    /// The value of a key.
    Field(String),
    /// All items or entries.
    All,
    /// The value itself and all its descendants.
    Descendants,
    /// One item. Negative indexes count from the end.
    Item(i64),
    /// Every `step`-th item from one index up to but excluding another.
    Slice { from: Option<i64>, to: Option<i64>, step: usize },
    /// The results of several paths.
    Union(Vec<Vec<PathStep>>),
    /// The items that match a filter.
    Filter(PathFilter),
}

/// A filter on items.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathFilter {
    pub(super) left: Operand,
    /// The comparison, or `None` to test that the left side exists.
    pub(super) comparison: Option<(PathOperator, Operand)>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Path(Vec<PathStep>),
    Literal(Value),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl FromStr for JsonPath {
    type Err = JsonPathError;
    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        parse(text).map(|steps| JsonPath { steps })
    }
}

/// The path does not fit the object: an index out of range, or a filter on something other than a
/// list.
struct Mismatch;

impl JsonPath {
    /// The first matching value.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        follow(&self.steps, vec![value]).ok()?.first().copied()
    }

    /// All matching values. Empty if the path does not fit the object.
    pub fn all<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        follow(&self.steps, vec![value]).unwrap_or_default()
    }
}

fn follow<'v>(steps: &[PathStep], mut values: Vec<&'v Value>) -> Result<Vec<&'v Value>, Mismatch> {
    for step in steps {
        let mut next = Vec::new();
        match step {
            PathStep::Union(paths) => {
                for path in paths {
                    next.extend(follow(path, values.clone())?);
                }
            }
            step => {
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    step.take(value, &mut next)?;
                }
            }
        }
        if next.len() > MAX_VALUES {
            return Err(Mismatch);
        }
        values = next;
    }
    Ok(values)
}

impl PathStep {
    fn take<'v>(&self, value: &'v Value, next: &mut Vec<&'v Value>) -> Result<(), Mismatch> {
        match (self, value) {
            (PathStep::Field(name), value) => next.extend(value.get(name)),
            (PathStep::All, value) => next.extend(children(value)),
            (PathStep::Descendants, value) => descend(value, next),
            (PathStep::Item(index), Value::Array(items)) => {
                let index = if *index < 0 { index.checked_add_unsigned(items.len() as u64) } else { Some(*index) };
                let item = index.and_then(|index| items.get(usize::try_from(index).ok()?));
                next.push(item.ok_or(Mismatch)?);
            }
            (PathStep::Slice { from, to, step }, Value::Array(items)) => {
                let length = items.len() as i64;
                let place = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
                let (from, to) = (from.map_or(0, place), to.map_or(length, place));
                if from != to {
                    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok()).ok_or(Mismatch)?;
                    next.extend(items.get(range.0..range.1).ok_or(Mismatch)?.iter().step_by((*step).max(1)));
                }
            }
            (PathStep::Filter(filter), Value::Array(items)) => {
                for item in items {
                    if filter.accepts(item)? {
                        next.push(item);
                    }
                }
            }
            _ => return Err(Mismatch),
        }
        Ok(())
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let children = children(value);
    if !children.is_empty() && found.len() <= MAX_VALUES {
        found.push(value);
        children.into_iter().for_each(|child| descend(child, found));
    }
}

impl PathFilter {
    fn accepts(&self, item: &Value) -> Result<bool, Mismatch> {
        let Some((operator, right)) = &self.comparison else {
            return Ok(!self.left.values(item).unwrap_or_default().is_empty());
        };
        match (&self.left.values(item)?[..], &right.values(item)?[..]) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => operator.holds(left, right),
            _ => Err(Mismatch),
        }
    }
}

impl Operand {
    fn values<'v>(&'v self, item: &'v Value) -> Result<Vec<&'v Value>, Mismatch> {
        match self {
            Operand::Path(steps) => follow(steps, vec![item]),
            Operand::Literal(value) => Ok(vec![value]),
        }
    }
}

impl PathOperator {
    /// Compares two values, which must be of the same kind.
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Mismatch> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (left, right) => {
                let numbers = left.as_f64().zip(right.as_f64()).ok_or(Mismatch)?;
                numbers.0.partial_cmp(&numbers.1).ok_or(Mismatch)?
            }
        };
        Ok(match self {
            PathOperator::Equal => order == Ordering::Equal,
            PathOperator::NotEqual => order != Ordering::Equal,
            PathOperator::Less => order == Ordering::Less,
            PathOperator::LessOrEqual => order != Ordering::Greater,
            PathOperator::Greater => order == Ordering::Greater,
            PathOperator::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_path_is_parsed_without_a_panic(path in r#"([.$@\[\]'"*?()=<>!:,\\-]|\.\.|spec|list|n|[0-9]|é| |\[\?\(@\.){0,16}"#) {
            if let Ok(path) = path.parse::<JsonPath>() {
                path.all(&OBJECT.parse().unwrap());
            }
        }
    }

    const OBJECT: &str = r#"{
        "spec": {"x": 1, "a.b/c": "dotted", "list": [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "c"}]},
        "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}], "none": null}
    }"#;

    fn found(path: &str) -> String {
        let object: Value = OBJECT.parse().unwrap();
        let path: JsonPath = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        format!("{:?}", path.all(&object))
    }

    #[test]
    fn paths_select_values() {
        for (path, want) in [
            (".spec.x", "[1]"),
            ("$.spec.x", "[1]"),
            ("spec.x", "[1]"),
            (".spec['x']", "[1]"),
            (r".spec.a\.b/c", r#"["dotted"]"#),
            (r".spec['a\.b/c']", r#"["dotted"]"#),
            (".spec['a.b/c']", "[]"),
            (".status['conditions[0].type']", r#"["Other"]"#),
            (".spec.y", "[]"),
            (".spec.x.y", "[]"),
            (".spec.list[0].n", r#"["a"]"#),
            (".spec.list[-1].n", r#"["c"]"#),
            (".spec.list[9].n", "[]"),
            (".spec.list[*].n", r#"["a","b","c"]"#),
            (".spec.list[1:].n", r#"["b","c"]"#),
            (".spec.list[:2].n", r#"["a","b"]"#),
            (".spec.list[0:3:2].n", r#"["a","c"]"#),
            (".spec.list[0,2].n", r#"["a","c"]"#),
            (".spec.list[*]['n','v']", r#"["a","b","c",1,2]"#),
            (".spec.list.*.n", r#"["a","b","c"]"#),
            ("..v", "[1,2]"),
            (r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#),
            (".status.conditions[?(@.type=='Ready')].status", r#"["True"]"#),
            (".status.conditions[?(@.type!='Ready')].status", r#"["False"]"#),
            (".spec.list[?(@.v>1)].n", r#"["b"]"#),
            (".spec.list[?(@.v >= 1)].n", r#"["a","b"]"#),
            (".spec.list[?(@.v)].n", r#"["a","b"]"#),
            (".spec[?(@.v)].n", "[]"),
            (".status.none", "[null]"),
            (".status.none.x", "[]"),
        ] {
            assert_eq!(found(path).replace(", ", ","), want, "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in [
            "",
            ".spec[",
            ".spec[?(@.x]",
            ".a[x]",
            ".a[?(@.x==)]",
            "..",
            ".a.",
            "{.a}",
            ".a[?(@.x=~1)]",
            ".a['b]",
            r#".a["b"]"#,
        ] {
            assert!(path.parse::<JsonPath>().is_err(), "{path}");
        }
        let deep = format!(".a{}", "['".repeat(1000));
        assert!(deep.parse::<JsonPath>().is_err());
        let deep = format!(".a{}", "[?(@".repeat(1000));
        assert!(deep.parse::<JsonPath>().is_err());
    }
}
