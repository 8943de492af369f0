//! Sizes of values: limits that a caller declares, and ranges that the estimator derives.

use kubewright_core::{Map, Str};

use crate::identifiers::escaped_word;

/// Steps of a path that are not fields.
pub(super) const ITEMS: &str = "@items";
pub(super) const VALUES: &str = "@values";
pub(super) const KEYS: &str = "@keys";

/// Upper limits on the sizes of a value and of its parts.
#[derive(Debug, Clone, Default)]
pub struct SizeLimits {
    /// Items of a list, entries of a map, or characters of a string. Zero for other types.
    pub max: u64,
    /// Limits of the items of a list, or of the values of a map.
    pub items: Option<Box<SizeLimits>>,
    /// The length of the keys of a map. Zero if keys should not add to the cost.
    pub keys: Option<u64>,
    /// Whether expressions can select entries like fields. All entries have the limits `items`.
    pub has_named_items: bool,
    /// Limits of the fields of an object, by escaped name.
    pub fields: Map<SizeLimits>,
}

impl SizeLimits {
    /// Limits of a value without parts.
    pub fn scalar(max: u64) -> Self {
        SizeLimits { max, ..SizeLimits::default() }
    }

    /// The limit at the end of a path. The first step, the variable, is ignored: all variables have
    /// the same limits.
    pub(super) fn at(&self, path: &[Str]) -> Option<u64> {
        let [_, steps @ ..] = path else { return None };
        let mut here = self;
        for (index, step) in steps.iter().enumerate() {
            here = match step.as_str() {
                ITEMS | VALUES => here.items.as_deref()?,
                // A key has no parts.
                KEYS => return here.keys.filter(|_| index + 1 == steps.len()),
                _ if here.has_named_items => here.items.as_deref()?,
                name => here.fields.get(name).or_else(|| here.fields.get(&escaped_word(name)?))?,
            };
        }
        Some(here.max)
    }
}

/// A range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeEstimate {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl SizeEstimate {
    pub(super) const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: u64) -> SizeEstimate {
        SizeEstimate { min: size, max: size }
    }

    pub(super) fn plus(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of traversing the largest such value, with a price per element.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scale(self.max, factor)
    }
}

/// A product, rounded up.
pub(super) fn scale(number: u64, factor: f64) -> u64 {
    // Casts from float to integer saturate.
    (number as f64 * factor).ceil() as u64
}
