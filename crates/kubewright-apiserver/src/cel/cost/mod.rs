//! What an expression may cost at most, told before any value is there.
//!
//! The numbers are those of the real server, which refuses a definition because of them: each step, operator and function
//! has its price, and what is done for each item counts as often as there may be items. How many there may be is known
//! from an [`Extent`], or from what the expression itself says. `estimator` walks the expression, `calls` knows functions.

mod calls;
mod estimator;
#[cfg(test)]
mod tests;

use kubewright_core::{Map, Str};

pub(super) use estimator::estimate;

/// How large values of a type may be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extent {
    /// Items of a list, entries of a map, characters of a text; zero for what has no size.
    pub(crate) max: u64,
    /// Items of a list, or values of a map.
    pub(crate) items: Option<Box<Extent>>,
    /// The length of keys, where there are some; zero where nobody limits or counts it.
    pub(crate) keys: Option<u64>,
    /// Whether items can be named like fields, and all of them are of one size.
    pub(crate) has_named_items: bool,
    /// Fields of an object, by the names that expressions use.
    pub(crate) fields: Map<Extent>,
}

impl Extent {
    /// The largest size of what a path leads to. Where it begins does not matter: all variables are of this type.
    fn at(&self, path: &[Str]) -> Option<u64> {
        let [_, steps @ ..] = path else { return None };
        let mut here = self;
        for step in steps {
            here = match step.as_str() {
                estimator::ITEMS | estimator::VALUES => here.items.as_deref()?,
                // There is nothing below a key.
                estimator::KEYS => return here.keys.filter(|_| std::ptr::eq(step, &path[path.len() - 1])),
                _ if here.has_named_items => here.items.as_deref()?,
                name => here.fields.get(name)?,
            };
        }
        Some(here.max)
    }
}

/// How large something is, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    fn exactly(size: u64) -> Size {
        Size { min: size, max: size }
    }

    fn plus(self, other: Size) -> Size {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Size) -> Size {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn union(self, other: Size) -> Size {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of looking at all of it, at this much for each part.
    fn cost(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// A product, rounded up.
fn scaled(number: u64, factor: f64) -> u64 {
    // A conversion of a float to an integer saturates.
    (number as f64 * factor).ceil() as u64
}
