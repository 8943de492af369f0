//! How much an expression may cost.
//!
//! Costs are counted in the units of the real server: one for each step, a tenth for each character that is looked at.
//! They are close to its numbers, not equal to them.

use super::error::EvaluationError;

/// What is left for an expression, and for all that follow it.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    /// What a single expression may use.
    limit: u64,
    /// What the current one has used.
    used: u64,
}

impl Budget {
    /// What all rules together may cost for one object.
    pub(crate) const FOR_OBJECT: u64 = 10_000_000;
    /// What a single evaluation may cost.
    pub(crate) const FOR_CALL: u64 = 1_000_000;

    /// The budget for the rules of one object.
    pub(crate) fn for_object() -> Self {
        Budget::new(Budget::FOR_OBJECT, Budget::FOR_CALL)
    }

    /// A budget of this much, and this much for each expression.
    pub(crate) fn new(left: u64, limit: u64) -> Self {
        Budget { left, limit, used: 0 }
    }

    /// Begins with another expression.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
    }

    /// Leaves nothing to those that follow.
    pub(crate) fn exhaust(&mut self) {
        self.left = 0;
    }

    /// Whether nothing is left for any expression.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Pays for a part of the work.
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.used = self.used.saturating_add(cost);
        self.left = self.left.saturating_sub(cost);
        if self.used > self.limit || self.left == 0 { Err(EvaluationError::OutOfBudget) } else { Ok(()) }
    }

    /// Pays for looking at this many characters or items.
    pub(super) fn spend_for_size(&mut self, size: usize) -> Result<(), EvaluationError> {
        self.spend(1 + (size as u64) / 10)
    }
}
