//! Costs of functions, and sizes of their results.

use super::estimate::{Estimate, NEW_LIST, PER_CHARACTER};
use super::size::{SizeEstimate, scale};
use crate::types::Type;

/// Price of each character of a pattern, per character of the text.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Price of an authorizer check: an expression can afford two.
const CHECK: u64 = 350_000;
/// Assumed length of the pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;

/// A call with the estimates of its arguments.
pub(super) struct FunctionCall<'a> {
    /// The namespace of the function, empty if it has none.
    pub(super) namespace: &'a str,
    pub(super) function: &'a str,
    pub(super) target: Option<&'a Estimate>,
    pub(super) arguments: &'a [Estimate],
    /// The values of arguments that are integer literals.
    pub(super) numbers: &'a [Option<u64>],
    /// Type and size of the items, if the target is a list.
    pub(super) item: Option<(Type, SizeEstimate)>,
}

/// The cost of a call without its arguments, and the size of its result.
pub(super) struct Price {
    pub(super) cost: u64,
    pub(super) size: Option<SizeEstimate>,
}

fn of_cost(cost: u64) -> Price {
    Price { cost, size: None }
}

impl FunctionCall<'_> {
    fn argument(&self, index: usize) -> SizeEstimate {
        self.arguments.get(index).map_or(SizeEstimate::UNKNOWN, Estimate::size)
    }

    fn argument_is(&self, index: usize, predicate: fn(&Type) -> bool) -> bool {
        self.arguments.get(index).is_some_and(|argument| predicate(&argument.ty))
    }

    pub(super) fn price(&self) -> Price {
        let target = self.target.map(Estimate::size);
        let first = || self.argument(0);
        match (self.namespace, self.function, target) {
            ("sets", function, _) => {
                let factor = if function == "equivalent" { 2.0 } else { 1.0 };
                of_cost(first().times(self.argument(1)).cost(factor).saturating_add(1))
            }
            ("jsonpatch", "escapeKey", _) => Price { cost: first().cost(PER_CHARACTER), size: Some(first()) },
            ("strings", "quote", _) => {
                let SizeEstimate { min, max } = first();
                let size = SizeEstimate { min: min.saturating_add(2), max: max.saturating_mul(2).saturating_add(2) };
                Price { cost: first().cost(PER_CHARACTER), size: Some(size) }
            }
            ("lists", "range", _) => self.new_list(SizeEstimate::exactly(self.number(0).unwrap_or(u64::MAX)), 1),
            ("ip", "isCanonical", _) => of_cost(first().cost(2.0 * PER_CHARACTER)),
            ("", "check", Some(_)) => of_cost(CHECK),
            (_, "fieldSelector" | "labelSelector", Some(_)) => of_cost(first().cost(PER_CHARACTER)),
            (_, "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target)) => match &self.item {
                Some((Type::String | Type::Bytes, size)) => {
                    of_cost(target.max.saturating_mul(size.cost(PER_CHARACTER).saturating_add(1)))
                }
                Some(_) => of_cost(target.max),
                None => of_cost(target.cost(PER_CHARACTER)),
            },
            (_, "lowerAscii" | "upperAscii" | "substring" | "trim", Some(target)) => {
                Price { cost: target.cost(PER_CHARACTER), size: Some(target) }
            }
            (_, "replace", Some(target)) => {
                let size = size_after_replace(target, first(), self.argument(1));
                Price { cost: target.cost(2.0 * PER_CHARACTER), size: Some(size) }
            }
            (_, "split", Some(target)) => {
                let max = self.number(1).unwrap_or(target.max);
                Price { cost: target.cost(2.0 * PER_CHARACTER), size: Some(SizeEstimate { min: 0, max }) }
            }
            (_, "join", Some(target)) => self.join(target),
            (_, "find" | "findAll", Some(target)) => {
                let size = Some(SizeEstimate { min: 0, max: target.max });
                Price { cost: match_cost(target, first()), size }
            }
            (_, "matches", Some(target)) => of_cost(match_cost(target, first())),
            (_, "matches", None) => of_cost(match_cost(first(), self.argument(1))),
            (_, "contains", Some(target)) => {
                of_cost(target.cost(PER_CHARACTER).saturating_mul(first().cost(PER_CHARACTER)))
            }
            (_, "startsWith" | "endsWith", Some(_)) => of_cost(first().cost(PER_CHARACTER)),
            (_, "format", Some(target)) => of_cost(target.cost(PER_CHARACTER)),
            (_, "validate", Some(_)) => {
                of_cost(scale(first().cost(PER_CHARACTER), FORMAT_PATTERN * PER_PATTERN_CHARACTER))
            }
            (_, "containsIP" | "containsCIDR", Some(_)) => self.contains_address(),
            (_, "slice", Some(target)) => {
                let (from, to) = (self.number(0).unwrap_or(0), self.number(1).unwrap_or(target.max));
                self.new_list(SizeEstimate::exactly(to.saturating_sub(from)), 1)
            }
            (_, "reverse" | "flatten", Some(target)) => self.new_list(target, 1),
            (_, "sort" | "distinct", Some(target)) => self.new_list(target, target.max.saturating_mul(2)),
            ("", "url", None) => Price { cost: first().cost(PER_CHARACTER), size: Some(first()) },
            ("", "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", None) => {
                of_cost(first().cost(PER_CHARACTER))
            }
            ("", "bytes", None) if self.argument_is(0, |ty| matches!(ty, Type::String | Type::Dyn)) => {
                let SizeEstimate { min, max } = first();
                let size = SizeEstimate { min, max: max.saturating_mul(4) };
                Price { cost: first().cost(PER_CHARACTER).max(1), size: Some(size) }
            }
            ("", "string", None) if self.argument_is(0, |ty| matches!(ty, Type::Bytes | Type::Dyn)) => {
                let SizeEstimate { min, max } = first();
                Price { cost: first().cost(PER_CHARACTER).max(1), size: Some(SizeEstimate { min: min / 4, max }) }
            }
            _ => of_cost(1),
        }
    }

    fn number(&self, index: usize) -> Option<u64> {
        self.numbers.get(index).copied().flatten()
    }

    /// The price of constructing a list.
    fn new_list(&self, size: SizeEstimate, each: u64) -> Price {
        let cost = size.max.saturating_mul(each).saturating_add(NEW_LIST + 1);
        Price { cost, size: Some(size) }
    }

    fn join(&self, list: SizeEstimate) -> Price {
        let mut size = self.item.as_ref().map_or(SizeEstimate::exactly(0), |(_, item)| list.times(*item));
        if !self.arguments.is_empty() {
            let gaps = SizeEstimate { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
            size = size.plus(self.argument(0).times(gaps));
        }
        Price { cost: size.cost(PER_CHARACTER), size: Some(size) }
    }

    /// Compares two addresses of up to sixteen bytes.
    fn contains_address(&self) -> Price {
        const ADDRESS: SizeEstimate = SizeEstimate { min: 4, max: 16 };
        let mut cost = ADDRESS.plus(ADDRESS).cost(PER_CHARACTER);
        if self.function == "containsCIDR" {
            cost = cost.saturating_add(ADDRESS.cost(PER_CHARACTER)).saturating_add(1);
        }
        if self.argument_is(0, |ty| matches!(ty, Type::String | Type::Dyn)) {
            cost = cost.saturating_add(self.argument(0).cost(PER_CHARACTER));
        }
        of_cost(cost)
    }
}

/// The cost of matching a pattern against a text. An empty text has a cost, too.
fn match_cost(text: SizeEstimate, pattern: SizeEstimate) -> u64 {
    text.plus(SizeEstimate::exactly(1)).cost(PER_CHARACTER).saturating_mul(pattern.cost(PER_PATTERN_CHARACTER))
}

/// The size of a text after replacing all occurrences of a substring.
fn size_after_replace(text: SizeEstimate, from: SizeEstimate, to: SizeEstimate) -> SizeEstimate {
    // The longest and the shortest result: the number of replacements, and the unchanged rest.
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
    SizeEstimate { min: fewest, max: most }.times(to).plus(SizeEstimate { min: keeps, max: stays })
}
