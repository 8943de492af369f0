//! The Common Expression Language, as far as Kubernetes uses it.
//!
//! A [`Program`] is compiled once against an [`Environment`] of typed variables and evaluated often, each time within
//! a [`Budget`]. Rules of custom resources (`schema::rules`) and admission policies (`admission::policy`) share it; it
//! knows neither of them. `lexer` and `parser` make a tree of `syntax`, `checker` finds its types by `signatures`,
//! `cost` says what it may cost at most, `evaluator` walks it over `value`s, and `functions` holds the libraries.
//!
//! This is an interpreter of our own. The crate `cel` brings a parser generator's runtime along, and has neither the
//! libraries of Kubernetes nor a limit on cost nor optional values: what would be left of it is less than what is here.
//!
//! *Invariants:* no text and no value leads to a panic or to unbounded recursion; a value is shared and never changed.

mod budget;
mod checker;
mod cost;
mod error;
mod evaluator;
mod functions;
mod identity;
mod lexer;
mod operators;
mod parser;
mod signatures;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod words;

use kubewright_core::Str;

pub(crate) use budget::Budget;
pub(crate) use cost::Extent;
pub(crate) use error::{CompileError, EvaluationError};
pub(crate) use evaluator::Variables;
pub(crate) use functions::{Check, CheckStage, is_version, show_double};
pub(crate) use types::{Field, ListKind, Type, escape};
pub(crate) use value::Value;
pub(crate) use words::is_identifier;

use syntax::Expression;

/// The variables that an expression may use, with their types. Where `cel` is one of them, `cel.bind` makes more.
pub(crate) type Environment<'a> = [(&'a str, Type)];

/// An expression that is ready to be evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    expression: Expression,
    /// What it evaluates to, as far as that can be told ahead.
    pub(crate) result: Type,
}

impl Program {
    /// Reads an expression and checks that it makes sense.
    pub(crate) fn compile(text: &str, environment: &Environment<'_>) -> Result<Program, CompileError> {
        let has_bindings = environment.iter().any(|(name, _)| *name == "cel");
        let expression = parser::parse(text, has_bindings)?;
        let result = checker::check(text, &expression, environment)?;
        Ok(Program { expression, result })
    }

    /// What it costs at most to evaluate it, where values of all variables have this extent.
    pub(crate) fn max_cost(&self, environment: &Environment<'_>, extent: &Extent) -> u64 {
        cost::estimate(&self.expression, environment, extent)
    }

    /// Whether a variable is mentioned.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        self.expression.mentions(variable)
    }

    /// The value of the expression.
    pub(crate) fn evaluate(&self, variables: &Variables<'_>, budget: &mut Budget) -> Result<Value, EvaluationError> {
        evaluator::evaluate(&self.expression, variables, budget)
    }

    /// The value of an expression that has to be true or false.
    pub(crate) fn is_true(&self, variables: &Variables<'_>, budget: &mut Budget) -> Result<bool, EvaluationError> {
        match self.evaluate(variables, budget)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(EvaluationError::new(format!("expected bool, got {}", other.type_name()))),
        }
    }

    /// The value of an expression that has to be text.
    pub(crate) fn text(&self, variables: &Variables<'_>, budget: &mut Budget) -> Result<Str, EvaluationError> {
        match self.evaluate(variables, budget)? {
            Value::String(text) => Ok(text),
            other => Err(EvaluationError::new(format!("expected string, got {}", other.type_name()))),
        }
    }
}
