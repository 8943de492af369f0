//! What functions cost, and how large their results may be.

use super::estimator::{Known, NEW_LIST, PER_CHARACTER};
use super::{Size, scaled};
use crate::cel::types::Type;

/// Price of each character of a regular expression, for each character that it is tried on.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Price of asking whether somebody may do something: two such questions fit into an expression.
const CHECK: u64 = 350_000;
/// How long the pattern behind a named format may be.
const FORMAT_PATTERN: f64 = 128.0;

/// A call, with what is known of its arguments.
pub(super) struct Call<'a> {
    /// The library of the function, where it is called by one.
    pub(super) space: &'a str,
    pub(super) function: &'a str,
    pub(super) target: Option<&'a Known>,
    pub(super) arguments: &'a [Known],
    /// Arguments that are written as whole numbers.
    pub(super) numbers: &'a [Option<u64>],
    /// Type and size of the items, if the target is a list.
    pub(super) item: Option<(Type, Size)>,
}

/// What a call costs beside its arguments.
pub(super) struct Priced {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
}

fn priced(cost: u64) -> Priced {
    Priced { cost, size: None }
}

impl Call<'_> {
    fn argument(&self, index: usize) -> Size {
        self.arguments.get(index).map_or(Size::UNKNOWN, Known::size)
    }

    fn argument_is(&self, index: usize, is_meant: fn(&Type) -> bool) -> bool {
        self.arguments.get(index).is_some_and(|argument| is_meant(&argument.ty))
    }

    pub(super) fn price(&self) -> Priced {
        let target = self.target.map(Known::size);
        let first = || self.argument(0);
        match (self.space, self.function, target) {
            ("sets", function, _) => {
                let factor = if function == "equivalent" { 2.0 } else { 1.0 };
                priced(first().times(self.argument(1)).cost(factor).saturating_add(1))
            }
            ("jsonpatch", "escapeKey", _) => Priced { cost: first().cost(PER_CHARACTER), size: Some(first()) },
            ("strings", "quote", _) => {
                let Size { min, max } = first();
                let size = Size { min: min.saturating_add(2), max: max.saturating_mul(2).saturating_add(2) };
                Priced { cost: first().cost(PER_CHARACTER), size: Some(size) }
            }
            ("lists", "range", _) => self.new_list(Size::exactly(self.number(0).unwrap_or(u64::MAX)), 1),
            ("ip", "isCanonical", _) => priced(first().cost(2.0 * PER_CHARACTER)),
            ("", "check", Some(_)) => priced(CHECK),
            (_, "fieldSelector" | "labelSelector", Some(_)) => priced(first().cost(PER_CHARACTER)),
            (_, "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target)) => match &self.item {
                Some((Type::String | Type::Bytes, size)) => {
                    priced(target.max.saturating_mul(size.cost(PER_CHARACTER).saturating_add(1)))
                }
                Some(_) => priced(target.max),
                None => priced(target.cost(PER_CHARACTER)),
            },
            (_, "lowerAscii" | "upperAscii" | "substring" | "trim", Some(target)) => {
                Priced { cost: target.cost(PER_CHARACTER), size: Some(target) }
            }
            (_, "replace", Some(target)) => {
                let size = replaced(target, first(), self.argument(1));
                Priced { cost: target.cost(2.0 * PER_CHARACTER), size: Some(size) }
            }
            (_, "split", Some(target)) => {
                let max = self.number(1).unwrap_or(target.max);
                Priced { cost: target.cost(2.0 * PER_CHARACTER), size: Some(Size { min: 0, max }) }
            }
            (_, "join", Some(target)) => self.join(target),
            (_, "find" | "findAll", Some(target)) => {
                let size = Some(Size { min: 0, max: target.max });
                Priced { cost: pattern(target, first()), size }
            }
            (_, "matches", Some(target)) => priced(pattern(target, first())),
            (_, "matches", None) => priced(pattern(first(), self.argument(1))),
            (_, "contains", Some(target)) => {
                priced(target.cost(PER_CHARACTER).saturating_mul(first().cost(PER_CHARACTER)))
            }
            (_, "startsWith" | "endsWith", Some(_)) => priced(first().cost(PER_CHARACTER)),
            (_, "format", Some(target)) => priced(target.cost(PER_CHARACTER)),
            (_, "validate", Some(_)) => {
                priced(scaled(first().cost(PER_CHARACTER), FORMAT_PATTERN * PER_PATTERN_CHARACTER))
            }
            (_, "containsIP" | "containsCIDR", Some(_)) => self.contains_address(),
            (_, "slice", Some(target)) => {
                let (from, to) = (self.number(0).unwrap_or(0), self.number(1).unwrap_or(target.max));
                self.new_list(Size::exactly(to.saturating_sub(from)), 1)
            }
            (_, "reverse" | "flatten", Some(target)) => self.new_list(target, 1),
            (_, "sort" | "distinct", Some(target)) => self.new_list(target, target.max.saturating_mul(2)),
            ("", "url", None) => Priced { cost: first().cost(PER_CHARACTER), size: Some(first()) },
            ("", "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", None) => {
                priced(first().cost(PER_CHARACTER))
            }
            ("", "bytes", None) if self.argument_is(0, |ty| matches!(ty, Type::String | Type::Dyn)) => {
                let Size { min, max } = first();
                let size = Size { min, max: max.saturating_mul(4) };
                Priced { cost: first().cost(PER_CHARACTER).max(1), size: Some(size) }
            }
            ("", "string", None) if self.argument_is(0, |ty| matches!(ty, Type::Bytes | Type::Dyn)) => {
                let Size { min, max } = first();
                Priced { cost: first().cost(PER_CHARACTER).max(1), size: Some(Size { min: min / 4, max }) }
            }
            _ => priced(1),
        }
    }

    fn number(&self, index: usize) -> Option<u64> {
        self.numbers.get(index).copied().flatten()
    }

    /// A list of this size, with this much work for each item.
    fn new_list(&self, size: Size, each: u64) -> Priced {
        let cost = size.max.saturating_mul(each).saturating_add(NEW_LIST + 1);
        Priced { cost, size: Some(size) }
    }

    fn join(&self, list: Size) -> Priced {
        let mut size = self.item.as_ref().map_or(Size::exactly(0), |(_, item)| list.times(*item));
        if !self.arguments.is_empty() {
            let gaps = Size { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
            size = size.plus(self.argument(0).times(gaps));
        }
        Priced { cost: size.cost(PER_CHARACTER), size: Some(size) }
    }

    /// Addresses have sixteen bytes at most, and both are looked at.
    fn contains_address(&self) -> Priced {
        const ADDRESS: Size = Size { min: 4, max: 16 };
        let mut cost = ADDRESS.plus(ADDRESS).cost(PER_CHARACTER);
        if self.function == "containsCIDR" {
            cost = cost.saturating_add(ADDRESS.cost(PER_CHARACTER)).saturating_add(1);
        }
        if self.argument_is(0, |ty| matches!(ty, Type::String | Type::Dyn)) {
            cost = cost.saturating_add(self.argument(0).cost(PER_CHARACTER));
        }
        priced(cost)
    }
}

/// The cost of trying a pattern on a text. Even an empty text costs something.
fn pattern(text: Size, pattern: Size) -> u64 {
    text.plus(Size::exactly(1)).cost(PER_CHARACTER).saturating_mul(pattern.cost(PER_PATTERN_CHARACTER))
}

/// The size of a text in which some parts were replaced by others.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    // The longest and the shortest result: each the number of replacements, and what stays beside them.
    let (most, stays) = match from.min {
        0 => (text.max.saturating_add(1), text.max),
        shortest if to.max <= shortest => (0, text.max),
        shortest => (text.max.div_ceil(shortest), 0),
    };
    let (fewest, keeps) = match from.max {
        0 => (text.min.saturating_add(1), text.min),
        longest if longest <= to.min => (0, text.min),
        longest => (text.min.div_ceil(longest), 0),
    };
    Size { min: fewest, max: most }.times(to).plus(Size { min: keeps, max: stays })
}
