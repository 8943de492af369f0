//! The properties of a subexpression that the estimator derives.

use kubewright_core::Str;

use super::size::SizeEstimate;
use crate::types::Type;

/// Price of a new list.
pub(super) const NEW_LIST: u64 = 10;
/// Price of each character of a string that is read.
pub(super) const PER_CHARACTER: f64 = 0.1;

/// Cost, size and type of a subexpression.
#[derive(Debug, Clone)]
pub(super) struct Estimate {
    pub(super) cost: u64,
    pub(super) size: Option<SizeEstimate>,
    pub(super) entry: Option<EntrySize>,
    /// The path of the value within a variable, empty if it is computed.
    pub(super) path: Vec<Str>,
    pub(super) ty: Type,
}

impl Estimate {
    /// An estimate of which only the cost is known.
    pub(super) fn of_cost(cost: u64) -> Self {
        Estimate { cost, size: None, entry: None, path: Vec::new(), ty: Type::Dyn }
    }

    pub(super) fn size(&self) -> SizeEstimate {
        self.size.unwrap_or(SizeEstimate::UNKNOWN)
    }
}

/// Sizes of the keys and values of a list or a map that the expression constructs.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySize {
    pub(super) is_list: bool,
    pub(super) key: SizeEstimate,
    pub(super) value: SizeEstimate,
}

impl EntrySize {
    pub(super) fn union(self, other: EntrySize) -> EntrySize {
        EntrySize { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}
