//! Walks the tree of an expression.
//!
//! Logic does without a part that failed where the others decide; nothing else does.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::Str;

use super::budget::Budget;
use super::error::EvaluationError;
use super::functions::{self, Check};
use super::operators;
use super::syntax::{Expression, Fold, FoldKind, Node, Operator};
use super::types::unescape;
use super::value::{Key, Value};

/// What it costs to ask what somebody may do.
const AUTHORIZATION_COST: u64 = 350_000;

type Evaluated = Result<Value, EvaluationError>;

/// The values of the variables of an expression.
#[derive(Default)]
pub(crate) struct Variables<'a> {
    values: Vec<(&'static str, Value)>,
    /// Fields of `variables`, which may have failed, and then matter only to those who use them.
    computed: Vec<(Str, Evaluated)>,
    /// Who answers what somebody may do with a verb.
    authorizer: Option<Authorizer<'a>>,
}

/// Says whether something is allowed, and why.
type Authorizer<'a> = Box<dyn Fn(&Check, &str) -> (bool, String) + 'a>;

impl<'a> Variables<'a> {
    /// Lets expressions ask what somebody may do.
    pub(crate) fn authorize_by(&mut self, check: Check, authorizer: impl Fn(&Check, &str) -> (bool, String) + 'a) {
        self.set("authorizer", Value::Check(Arc::new(check)));
        self.authorizer = Some(Box::new(authorizer));
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &'static str, value: Value) {
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value));
    }

    /// Sets a field of `variables`.
    pub(crate) fn compute(&mut self, name: Str, value: Evaluated) {
        self.computed.push((name, value));
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// The value of an expression.
pub(super) fn evaluate(expression: &Expression, variables: &Variables<'_>, budget: &mut Budget) -> Evaluated {
    budget.begin();
    Scope { variables, name: "", value: &Value::Null, outer: None }.evaluate(expression, budget)
}

/// The names that are known at one place: one more than outside of it.
#[derive(Clone, Copy)]
struct Scope<'a> {
    variables: &'a Variables<'a>,
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    fn with(&'a self, name: &'a str, value: &'a Value) -> Scope<'a> {
        Scope { variables: self.variables, name, value, outer: Some(self) }
    }

    fn find(&self, name: &str) -> Option<&Value> {
        match self.outer {
            Some(_) if self.name == name => Some(self.value),
            Some(outer) => outer.find(name),
            None => self.variables.get(name),
        }
    }

    fn evaluate(&self, expression: &Expression, budget: &mut Budget) -> Evaluated {
        match &expression.node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Identifier(name) => {
                budget.spend(1)?;
                let known = self.find(name).cloned().or_else(|| functions::type_by_name(name).map(Value::Type));
                known.ok_or_else(|| EvaluationError::new(format!("no such attribute(s): {name}")))
            }
            Node::Select { operand, field, is_optional } => match expression.type_name() {
                Some(name) => Ok(Value::Type(name)),
                None => self.select(operand, field, *is_optional, budget),
            },
            Node::Has { operand, field } => {
                budget.spend(1)?;
                if self.is_computed(operand) {
                    return Ok(Value::Bool(self.variables.computed.iter().any(|(known, _)| known == field)));
                }
                match self.evaluate(operand, budget)? {
                    Value::Optional(None) => Ok(Value::Bool(false)),
                    Value::Optional(Some(inner)) => has(&inner, field),
                    value => has(&value, field),
                }
            }
            Node::Index { operand, index, is_optional } => {
                budget.spend(1)?;
                let (operand, index) = (self.evaluate(operand, budget)?, self.evaluate(index, budget)?);
                optional_access(operand, *is_optional, |value| element(value, &index), || missing(&index))
            }
            Node::Call { target, function, arguments } => self.call(target.as_deref(), function, arguments, budget),
            Node::Not(operand) => match self.evaluate(operand, budget)? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                _ => Err(EvaluationError::no_overload()),
            },
            Node::Negate(operand) => operators::negate(&self.evaluate(operand, budget)?),
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.evaluate(left, budget)?, self.evaluate(right, budget)?);
                let size = match operator {
                    Operator::In => right.size() * 10,
                    Operator::Add => left.size() + right.size(),
                    _ => left.size().min(right.size()),
                };
                budget.spend_for_size(size)?;
                operators::apply(*operator, &left, &right)
            }
            Node::All(parts) => self.logic(parts, false, budget),
            Node::Any(parts) => self.logic(parts, true, budget),
            Node::Choice { condition, then, otherwise } => match self.evaluate(condition, budget)? {
                Value::Bool(true) => self.evaluate(then, budget),
                Value::Bool(false) => self.evaluate(otherwise, budget),
                _ => Err(EvaluationError::no_overload()),
            },
            Node::List(items) => self.list(items, budget),
            Node::Map(entries) => self.map(entries, budget),
            Node::Struct { fields, .. } => self.fields(fields, budget),
            Node::Fold(fold) => self.fold(fold, budget),
            Node::OptionalMap { target, name, body, is_flat } => match self.evaluate(target, budget)? {
                Value::Optional(None) => Ok(Value::Optional(None)),
                Value::Optional(Some(inner)) => {
                    let mapped = self.with(name, &inner).evaluate(body, budget)?;
                    Ok(if *is_flat { mapped } else { Value::optional(Some(mapped)) })
                }
                _ => Err(EvaluationError::no_overload()),
            },
            Node::Bind { name, value, body } => {
                let value = self.evaluate(value, budget)?;
                self.with(name, &value).evaluate(body, budget)
            }
        }
    }

    /// Whether this stands for what a policy has computed before.
    fn is_computed(&self, operand: &Expression) -> bool {
        matches!(&operand.node, Node::Identifier(name) if name == "variables" && self.find(name).is_none())
    }

    fn select(&self, operand: &Expression, field: &Str, is_optional: bool, budget: &mut Budget) -> Evaluated {
        budget.spend(1)?;
        if self.is_computed(operand) {
            let found = self.variables.computed.iter().find(|(known, _)| known == field);
            return match (found, is_optional) {
                (Some((_, value)), true) => Ok(Value::optional(Some(value.clone()?))),
                (Some((_, value)), false) => value.clone(),
                (None, true) => Ok(Value::optional(None)),
                (None, false) => Err(EvaluationError::new(format!("no such key: {field}"))),
            };
        }
        let operand = self.evaluate(operand, budget)?;
        let look = |value: &Value| match value {
            Value::Map(_) => Ok(value.field(field).cloned()),
            _ => Err(EvaluationError::no_overload()),
        };
        optional_access(operand, is_optional, look, || EvaluationError::new(format!("no such key: {field}")))
    }

    fn call(
        &self,
        target: Option<&Expression>,
        function: &str,
        arguments: &[Expression],
        budget: &mut Budget,
    ) -> Evaluated {
        budget.spend(1)?;
        // Functions of a library are written like methods of its name.
        if let Some(Expression { node: Node::Identifier(space), .. }) = target
            && functions::is_space(space)
            && self.find(space).is_none()
        {
            let arguments = self.all_of(arguments, budget)?;
            return functions::call(&format!("{space}.{function}"), &arguments, budget);
        }
        match (target, function, arguments) {
            (Some(target), "or" | "orValue", [other]) => match (self.evaluate(target, budget)?, function) {
                (Value::Optional(None), _) => self.evaluate(other, budget),
                (found @ Value::Optional(_), "or") => Ok(found),
                (Value::Optional(Some(inner)), _) => Ok(Value::clone(&inner)),
                _ => Err(EvaluationError::no_overload()),
            },
            (Some(target), _, arguments) => {
                let target = self.evaluate(target, budget)?;
                let arguments = self.all_of(arguments, budget)?;
                match (&target, function, &arguments[..], &self.variables.authorizer) {
                    (Value::Check(check), "check", [Value::String(verb)], Some(authorizer)) => {
                        budget.spend(AUTHORIZATION_COST)?;
                        let (is_allowed, reason) = authorizer(check, verb);
                        Ok(Value::Decision { is_allowed, reason: reason.into() })
                    }
                    _ => functions::method(&target, function, &arguments, budget),
                }
            }
            (None, _, arguments) => {
                let arguments = self.all_of(arguments, budget)?;
                functions::call(function, &arguments, budget)
            }
        }
    }

    fn all_of(&self, arguments: &[Expression], budget: &mut Budget) -> Result<Vec<Value>, EvaluationError> {
        arguments.iter().map(|argument| self.evaluate(argument, budget)).collect()
    }

    /// The first part that is `decisive` decides; failures matter only if none is.
    fn logic(&self, parts: &[Expression], decisive: bool, budget: &mut Budget) -> Evaluated {
        let mut failure = None;
        for part in parts {
            match self.evaluate(part, budget) {
                Ok(Value::Bool(truth)) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(EvaluationError::no_overload())),
                Err(EvaluationError::OutOfBudget) => return Err(EvaluationError::OutOfBudget),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&self, items: &[(Expression, bool)], budget: &mut Budget) -> Evaluated {
        budget.spend(10)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, is_optional) in items {
            match (self.evaluate(item, budget)?, is_optional) {
                (value, false) => list.push(value),
                (Value::Optional(inner), true) => list.extend(inner.map(|inner| Value::clone(&inner))),
                _ => return Err(EvaluationError::no_overload()),
            }
        }
        Ok(Value::list(list))
    }

    fn map(&self, entries: &[(Expression, Expression, bool)], budget: &mut Budget) -> Evaluated {
        budget.spend(30)?;
        let mut map = BTreeMap::new();
        for (key, value, is_optional) in entries {
            let key = self.evaluate(key, budget)?;
            let key = key.to_key().ok_or_else(|| EvaluationError::new("unsupported key type"))?;
            let value = match (self.evaluate(value, budget)?, is_optional) {
                (value, false) => value,
                (Value::Optional(Some(inner)), true) => Value::clone(&inner),
                (Value::Optional(None), true) => continue,
                _ => return Err(EvaluationError::no_overload()),
            };
            if map.insert(key, value).is_some() {
                return Err(EvaluationError::new("Failed with repeated key"));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    /// A new object is a map, whose keys are the names that the fields really have.
    fn fields(&self, fields: &[(Str, Expression, bool)], budget: &mut Budget) -> Evaluated {
        budget.spend(40)?;
        let mut map = BTreeMap::new();
        for (name, value, is_optional) in fields {
            let value = match (self.evaluate(value, budget)?, is_optional) {
                (value, false) => value,
                (Value::Optional(Some(inner)), true) => Value::clone(&inner),
                (Value::Optional(None), true) => continue,
                _ => return Err(EvaluationError::no_overload()),
            };
            map.insert(Key::String(unescape(name)), value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn fold(&self, fold: &Fold, budget: &mut Budget) -> Evaluated {
        let target = self.evaluate(&fold.target, budget)?;
        let pairs: Vec<(Value, Value)> = match &target {
            Value::List(items, _) if fold.second.is_some() => {
                items.iter().enumerate().map(|(index, item)| (Value::Int(index as i64), item.clone())).collect()
            }
            Value::List(items, _) => items.iter().map(|item| (item.clone(), Value::Null)).collect(),
            Value::Map(entries) => entries.iter().map(|(key, value)| (key.clone().into(), value.clone())).collect(),
            _ => return Err(EvaluationError::no_overload()),
        };
        let (mut found, mut failure, mut count) = (Vec::new(), None, 0);
        let (mut entries, mut keyed) = (BTreeMap::new(), Vec::new());
        for (first, second) in &pairs {
            budget.spend(3)?;
            let outer = match &fold.second {
                Some(name) => self.with(name, second),
                None => *self,
            };
            let scope = outer.with(&fold.name, first);
            if let Some(condition) = &fold.condition {
                match scope.evaluate(condition, budget)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(EvaluationError::no_overload()),
                }
            }
            let result = scope.evaluate(&fold.body, budget);
            match (fold.kind, result) {
                (_, Err(EvaluationError::OutOfBudget)) => return Err(EvaluationError::OutOfBudget),
                (FoldKind::All | FoldKind::Exists, Ok(Value::Bool(truth))) => {
                    if truth == (fold.kind == FoldKind::Exists) {
                        return Ok(Value::Bool(truth));
                    }
                }
                (FoldKind::All | FoldKind::Exists, Err(error)) => failure = failure.or(Some(error)),
                (_, Err(error)) => return Err(error),
                (FoldKind::ExistsOne, Ok(Value::Bool(truth))) => count += usize::from(truth),
                (FoldKind::Filter, Ok(Value::Bool(truth))) => found.extend(truth.then(|| first.clone())),
                (FoldKind::Map, Ok(value)) => found.push(value),
                (FoldKind::SortBy, Ok(key)) => keyed.push((key, first.clone())),
                (FoldKind::TransformMap, Ok(value)) => {
                    entries.extend(first.to_key().map(|key| (key, value)));
                }
                (FoldKind::TransformMapEntry, Ok(Value::Map(made))) => {
                    entries.extend(made.iter().map(|(key, value): (&Key, &Value)| (key.clone(), value.clone())));
                }
                _ => return Err(EvaluationError::no_overload()),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(match fold.kind {
            FoldKind::All => Value::Bool(true),
            FoldKind::Exists => Value::Bool(false),
            FoldKind::ExistsOne => Value::Bool(count == 1),
            FoldKind::Filter | FoldKind::Map => Value::list(found),
            FoldKind::SortBy => return functions::sorted(keyed),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => Value::Map(Arc::new(entries)),
        })
    }
}

fn has(value: &Value, field: &str) -> Evaluated {
    match value {
        Value::Map(_) => Ok(Value::Bool(value.field(field).is_some())),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Looks into a value. What is looked for in an optional, or with a question mark, is itself optional.
fn optional_access(
    operand: Value,
    is_optional: bool,
    look: impl FnOnce(&Value) -> Result<Option<Value>, EvaluationError>,
    missing: impl FnOnce() -> EvaluationError,
) -> Evaluated {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => look(&inner).map(Value::optional),
        value if is_optional => look(&value).map(Value::optional),
        value => look(&value)?.ok_or_else(missing),
    }
}

fn missing(index: &Value) -> EvaluationError {
    EvaluationError::new(match index {
        Value::Int(index) => format!("index out of bounds: {index}"),
        Value::String(key) => format!("no such key: {key}"),
        _ => "no such key".to_owned(),
    })
}

fn element(value: &Value, index: &Value) -> Result<Option<Value>, EvaluationError> {
    match (value, index) {
        (Value::Map(entries), key) => Ok(key.to_key().and_then(|key| entries.get(&key)).cloned()),
        (Value::List(items, _), index) => match index.to_key() {
            Some(Key::Int(position)) => Ok(usize::try_from(position).ok().and_then(|at| items.get(at)).cloned()),
            _ => Err(EvaluationError::no_overload()),
        },
        _ => Err(EvaluationError::no_overload()),
    }
}
