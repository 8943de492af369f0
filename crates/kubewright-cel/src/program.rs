//! Compiled expressions.

use kubewright_core::Str;

use crate::activation::Activation;
use crate::ast::Expression;
use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::evaluator;
use crate::types::Type;
use crate::value::Value;

/// A compiled expression. Made by [`Environment::compile`](crate::Environment::compile).
#[derive(Debug, Clone)]
pub struct Program {
    expression: Expression,
    result: Type,
}

impl Program {
    pub(crate) fn new(expression: Expression, result: Type) -> Self {
        Program { expression, result }
    }

    pub(crate) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The type of the result, [`Type::Dyn`] if the checker cannot tell.
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    /// Whether the expression refers to a variable.
    pub fn references(&self, variable: &str) -> bool {
        self.expression.references(variable)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// [`EvaluationError::Failed`] if an operation fails, and [`EvaluationError::OutOfBudget`] if
    /// the expression costs more than the budget allows.
    pub fn evaluate(&self, activation: &Activation<'_>, budget: &mut Budget) -> Result<Value, EvaluationError> {
        evaluator::evaluate(&self.expression, activation, budget)
    }

    /// Evaluates an expression whose result is a `bool`.
    ///
    /// # Errors
    /// Those of [`evaluate`](Self::evaluate), and a result of another type.
    pub fn evaluate_bool(&self, activation: &Activation<'_>, budget: &mut Budget) -> Result<bool, EvaluationError> {
        match self.evaluate(activation, budget)? {
            Value::Bool(result) => Ok(result),
            other => Err(EvaluationError::new(format!("expected bool, got {}", other.type_name()))),
        }
    }

    /// Evaluates an expression whose result is a `string`.
    ///
    /// # Errors
    /// Those of [`evaluate`](Self::evaluate), and a result of another type.
    pub fn evaluate_string(&self, activation: &Activation<'_>, budget: &mut Budget) -> Result<Str, EvaluationError> {
        match self.evaluate(activation, budget)? {
            Value::String(text) => Ok(text),
            other => Err(EvaluationError::new(format!("expected string, got {}", other.type_name()))),
        }
    }
}
