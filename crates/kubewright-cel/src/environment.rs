//! Declarations that expressions are compiled against.

use kubewright_core::Str;

use crate::checker;
use crate::cost::{self, SizeLimits};
use crate::error::CompileError;
use crate::parser;
use crate::program::Program;
use crate::types::Type;

/// The variables that an expression may use, with their types.
///
/// All libraries of the [crate] documentation are always available, except those that are enabled
/// here. The type [`Type::Dyn`] turns off checks for a variable.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(Str, Type)>,
    has_bindings: bool,
}

impl Environment {
    /// An environment without variables.
    pub fn new() -> Self {
        Environment::default()
    }

    /// Declares a variable. A later declaration of the same name shadows an earlier one.
    #[must_use]
    pub fn variable(mut self, name: impl Into<Str>, ty: Type) -> Self {
        self.variables.push((name.into(), ty));
        self
    }

    /// Enables the macro `cel.bind(name, value, expression)`. Off by default.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// All errors of the expression with their positions, in the format of kube-apiserver.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let expression = parser::parse(source, self.has_bindings)?;
        let result = checker::check(source, &expression, &self.variables)?;
        Ok(Program::new(expression, result))
    }

    /// The highest cost of evaluating a program of this environment.
    ///
    /// `limits` describes every variable: in validation rules, `self` and `oldSelf` have the same
    /// schema. A size without limit makes the estimate saturate instead of overflowing.
    pub fn max_cost(&self, program: &Program, limits: &SizeLimits) -> u64 {
        cost::estimate(program.expression(), &self.variables, limits)
    }
}
