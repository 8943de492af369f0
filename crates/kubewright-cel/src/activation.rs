//! Values of variables during an evaluation.

use std::fmt;
use std::sync::Arc;

use kubewright_core::Str;

use crate::authorization::{AuthorizationCheck, AuthorizationDecision};
use crate::error::EvaluationError;
use crate::value::{EvaluationResult, Value};

type Authorizer<'a> = Box<dyn Fn(&AuthorizationCheck, &str) -> AuthorizationDecision + 'a>;

/// The values of the variables for one evaluation.
#[derive(Default)]
pub struct Activation<'a> {
    values: Vec<(Str, Value)>,
    composited: Vec<(Str, EvaluationResult)>,
    authorizer: Option<Authorizer<'a>>,
}

impl<'a> Activation<'a> {
    /// No variables.
    pub fn new() -> Self {
        Activation::default()
    }

    /// Sets a variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<Str>, value: Value) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a variable. An earlier value of the same name is replaced.
    pub fn set(&mut self, name: impl Into<Str>, value: Value) {
        let name = name.into();
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.values.push((name, value)),
        }
    }

    /// Sets the field `name` of the variable `variables`: a composited variable of a policy.
    ///
    /// An error is reported only to expressions that read the field.
    pub fn set_composited(&mut self, name: impl Into<Str>, value: Result<Value, EvaluationError>) {
        self.composited.push((name.into(), value));
    }

    /// Sets the variable `authorizer`. `authorize` answers its checks of a verb.
    ///
    /// `check` is where expressions start: usually empty apart from
    /// [`request`](AuthorizationCheck::request).
    ///
    /// ```
    /// use kubewright_cel::{Activation, AuthorizationCheck, AuthorizationDecision, Budget};
    /// use kubewright_cel::{Environment, Type};
    ///
    /// let environment = Environment::new().variable("authorizer", Type::Opaque("authorizer"));
    /// let program = environment.compile(
    ///     "authorizer.group('').resource('pods').namespace('default').check('create').allowed()",
    /// )?;
    /// let mut activation = Activation::new();
    /// activation.set_authorizer(AuthorizationCheck::default(), |check, verb| AuthorizationDecision {
    ///     is_allowed: check.resource == "pods" && verb == "create",
    ///     ..AuthorizationDecision::default()
    /// });
    /// assert!(program.evaluate_bool(&activation, &mut Budget::for_object())?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_authorizer(
        &mut self,
        check: AuthorizationCheck,
        authorize: impl Fn(&AuthorizationCheck, &str) -> AuthorizationDecision + 'a,
    ) {
        self.set("authorizer", Value::AuthorizationCheck(Arc::new(check)));
        self.authorizer = Some(Box::new(authorize));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(crate) fn composited(&self, name: &str) -> Option<&EvaluationResult> {
        self.composited.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(crate) fn authorize(&self, check: &AuthorizationCheck, verb: &str) -> Option<AuthorizationDecision> {
        self.authorizer.as_ref().map(|authorize| authorize(check, verb))
    }
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Activation { values, composited, authorizer: _ } = self;
        f.debug_struct("Activation").field("values", values).field("composited", composited).finish_non_exhaustive()
    }
}
