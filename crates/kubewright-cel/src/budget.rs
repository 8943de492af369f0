//! Limits on the runtime cost of expressions.

use crate::error::EvaluationError;

/// The remaining cost that evaluations may incur.
///
/// Costs are in the units of Kubernetes: 1 for each step, 0.1 for each character that is read. They
/// are close to those of kube-apiserver, not equal. One budget serves many expressions: each has a
/// limit of its own, and all share the total.
#[derive(Debug)]
pub struct Budget {
    remaining: u64,
    limit_per_expression: u64,
    /// Cost of the current expression so far.
    used: u64,
}

impl Budget {
    /// The cost limit of all expressions for one object.
    pub const OBJECT_LIMIT: u64 = 10_000_000;
    /// The cost limit of one evaluation.
    pub const EXPRESSION_LIMIT: u64 = 1_000_000;

    /// The limits that Kubernetes sets for the rules of one object.
    pub fn for_object() -> Self {
        Budget::new(Budget::OBJECT_LIMIT, Budget::EXPRESSION_LIMIT)
    }

    /// A budget of `total`, of which each expression may use up to `limit_per_expression`.
    pub fn new(total: u64, limit_per_expression: u64) -> Self {
        Budget { remaining: total, limit_per_expression, used: 0 }
    }

    /// Sets the remaining total to zero: every further evaluation fails.
    pub fn exhaust(&mut self) {
        self.remaining = 0;
    }

    /// Whether the total is used up.
    pub fn is_exhausted(&self) -> bool {
        self.remaining == 0
    }

    /// Starts counting for another expression.
    pub(crate) fn begin_expression(&mut self) {
        self.used = 0;
    }

    /// Charges `cost`.
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.used = self.used.saturating_add(cost);
        self.remaining = self.remaining.saturating_sub(cost);
        if self.used > self.limit_per_expression || self.remaining == 0 {
            return Err(EvaluationError::OutOfBudget);
        }
        Ok(())
    }

    /// The largest size that the rest of the budget pays for.
    pub(crate) fn size_limit(&self) -> usize {
        let rest = self.limit_per_expression.saturating_sub(self.used).min(self.remaining);
        usize::try_from(rest.saturating_mul(10)).unwrap_or(usize::MAX)
    }

    /// Charges for traversing this many characters or items.
    pub(crate) fn spend_for_size(&mut self, size: usize) -> Result<(), EvaluationError> {
        self.spend(1 + (size as u64) / 10)
    }
}
