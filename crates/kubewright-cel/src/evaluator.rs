//! Evaluates expressions by walking the tree.
//!
//! The logical operators, `all` and `exists` ignore a failed operand if another one decides. Every
//! other failure ends the evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::Str;

use crate::activation::Activation;
use crate::ast::{BinaryOperator, Comprehension, ComprehensionKind, Expression, Node};
use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::functions;
use crate::identifiers::unescape_field_name;
use crate::operators;
use crate::value::{EvaluationResult, MapKey, Value};

/// The cost of one authorizer check.
const AUTHORIZATION_COST: u64 = 350_000;

/// Evaluates an expression.
pub(crate) fn evaluate(expression: &Expression, activation: &Activation<'_>, budget: &mut Budget) -> EvaluationResult {
    budget.begin_expression();
    VariableScope { activation, name: "", value: &Value::Null, outer: None }.evaluate(expression, budget)
}

/// The variables in scope: the activation, and one variable per enclosing macro.
#[derive(Clone, Copy)]
struct VariableScope<'a> {
    activation: &'a Activation<'a>,
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a VariableScope<'a>>,
}

impl<'a> VariableScope<'a> {
    fn with(&'a self, name: &'a str, value: &'a Value) -> VariableScope<'a> {
        VariableScope { activation: self.activation, name, value, outer: Some(self) }
    }

    fn find(&self, name: &str) -> Option<&Value> {
        match self.outer {
            Some(_) if self.name == name => Some(self.value),
            Some(outer) => outer.find(name),
            None => self.activation.get(name),
        }
    }

    fn evaluate(&self, expression: &Expression, budget: &mut Budget) -> EvaluationResult {
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
                if self.is_composited(operand) {
                    return Ok(Value::Bool(self.activation.composited(field).is_some()));
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
                access(operand, *is_optional, |value| element(value, &index), || missing(&index))
            }
            Node::Call { target, function, arguments } => self.call(target.as_deref(), function, arguments, budget),
            Node::Not(operand) => match self.evaluate(operand, budget)? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                _ => Err(EvaluationError::no_overload()),
            },
            Node::Negate(operand) => operators::negate(&self.evaluate(operand, budget)?),
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.evaluate(left, budget)?, self.evaluate(right, budget)?);
                let limit = budget.size_limit();
                let size = match operator {
                    BinaryOperator::In if matches!(right, Value::List(..)) => {
                        (right.size() * 10).max(right.nested_size(limit))
                    }
                    BinaryOperator::In => right.size() * 10,
                    BinaryOperator::Add => left.size() + right.size(),
                    _ => left.nested_size(limit).min(right.nested_size(limit)),
                };
                budget.spend_for_size(size)?;
                operators::apply(*operator, &left, &right)
            }
            Node::And(operands) => self.logical(operands, false, budget),
            Node::Or(operands) => self.logical(operands, true, budget),
            Node::Conditional { condition, then, otherwise } => match self.evaluate(condition, budget)? {
                Value::Bool(true) => self.evaluate(then, budget),
                Value::Bool(false) => self.evaluate(otherwise, budget),
                _ => Err(EvaluationError::no_overload()),
            },
            Node::List(items) => self.list(items, budget),
            Node::Map(entries) => self.map(entries, budget),
            Node::Struct { fields, .. } => self.object(fields, budget),
            Node::Comprehension(fold) => self.comprehension(fold, budget),
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

    /// Whether an operand is the variable `variables` that holds composited variables.
    fn is_composited(&self, operand: &Expression) -> bool {
        matches!(&operand.node, Node::Identifier(name) if name == "variables" && self.find(name).is_none())
    }

    fn select(&self, operand: &Expression, field: &Str, is_optional: bool, budget: &mut Budget) -> EvaluationResult {
        budget.spend(1)?;
        if self.is_composited(operand) {
            return match (self.activation.composited(field), is_optional) {
                (Some(value), true) => Ok(Value::optional(Some(value.clone()?))),
                (Some(value), false) => value.clone(),
                (None, true) => Ok(Value::optional(None)),
                (None, false) => Err(EvaluationError::new(format!("no such key: {field}"))),
            };
        }
        let operand = self.evaluate(operand, budget)?;
        let select = |value: &Value| match value {
            Value::Map(_) => Ok(value.selected(field).cloned()),
            _ => Err(EvaluationError::no_overload()),
        };
        access(operand, is_optional, select, || EvaluationError::new(format!("no such key: {field}")))
    }

    fn call(
        &self,
        target: Option<&Expression>,
        function: &str,
        arguments: &[Expression],
        budget: &mut Budget,
    ) -> EvaluationResult {
        budget.spend(1)?;
        // Namespaced functions are written like methods of the namespace.
        if let Some(Expression { node: Node::Identifier(namespace), .. }) = target
            && functions::is_namespace(namespace)
            && self.find(namespace).is_none()
        {
            let arguments = self.arguments(arguments, budget)?;
            return functions::call(&format!("{namespace}.{function}"), &arguments, budget);
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
                let arguments = self.arguments(arguments, budget)?;
                match (&target, function, &arguments[..]) {
                    (Value::AuthorizationCheck(check), "check", [Value::String(verb)]) => {
                        budget.spend(AUTHORIZATION_COST)?;
                        let decision = self.activation.authorize(check, verb);
                        decision.map(Value::Decision).ok_or_else(EvaluationError::no_overload)
                    }
                    _ => functions::method(&target, function, &arguments, budget),
                }
            }
            (None, _, arguments) => {
                let arguments = self.arguments(arguments, budget)?;
                functions::call(function, &arguments, budget)
            }
        }
    }

    fn arguments(&self, arguments: &[Expression], budget: &mut Budget) -> Result<Vec<Value>, EvaluationError> {
        arguments.iter().map(|argument| self.evaluate(argument, budget)).collect()
    }

    /// Returns `decisive` if any operand is. Otherwise the first failure is the result.
    fn logical(&self, operands: &[Expression], decisive: bool, budget: &mut Budget) -> EvaluationResult {
        let mut failure = None;
        for operand in operands {
            match self.evaluate(operand, budget) {
                Ok(Value::Bool(truth)) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(EvaluationError::no_overload())),
                Err(EvaluationError::OutOfBudget) => return Err(EvaluationError::OutOfBudget),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&self, items: &[(Expression, bool)], budget: &mut Budget) -> EvaluationResult {
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

    fn map(&self, entries: &[(Expression, Expression, bool)], budget: &mut Budget) -> EvaluationResult {
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

    /// Constructs an object: a map whose keys are unescaped field names.
    fn object(&self, fields: &[(Str, Expression, bool)], budget: &mut Budget) -> EvaluationResult {
        budget.spend(40)?;
        let mut map = BTreeMap::new();
        for (name, value, is_optional) in fields {
            let value = match (self.evaluate(value, budget)?, is_optional) {
                (value, false) => value,
                (Value::Optional(Some(inner)), true) => Value::clone(&inner),
                (Value::Optional(None), true) => continue,
                _ => return Err(EvaluationError::no_overload()),
            };
            map.insert(MapKey::String(unescape_field_name(name)), value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn comprehension(&self, fold: &Comprehension, budget: &mut Budget) -> EvaluationResult {
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
                (ComprehensionKind::All | ComprehensionKind::Exists, Ok(Value::Bool(truth))) => {
                    if truth == (fold.kind == ComprehensionKind::Exists) {
                        return Ok(Value::Bool(truth));
                    }
                }
                (ComprehensionKind::All | ComprehensionKind::Exists, Err(error)) => failure = failure.or(Some(error)),
                (_, Err(error)) => return Err(error),
                (ComprehensionKind::ExistsOne, Ok(Value::Bool(truth))) => count += usize::from(truth),
                (ComprehensionKind::Filter, Ok(Value::Bool(truth))) => found.extend(truth.then(|| first.clone())),
                (ComprehensionKind::Map, Ok(value)) => found.push(value),
                (ComprehensionKind::SortBy, Ok(key)) => keyed.push((key, first.clone())),
                (ComprehensionKind::TransformMap, Ok(value)) => {
                    entries.extend(first.to_key().map(|key| (key, value)));
                }
                (ComprehensionKind::TransformMapEntry, Ok(Value::Map(made))) => {
                    entries.extend(made.iter().map(|(key, value): (&MapKey, &Value)| (key.clone(), value.clone())));
                }
                _ => return Err(EvaluationError::no_overload()),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(match fold.kind {
            ComprehensionKind::All => Value::Bool(true),
            ComprehensionKind::Exists => Value::Bool(false),
            ComprehensionKind::ExistsOne => Value::Bool(count == 1),
            ComprehensionKind::Filter | ComprehensionKind::Map => Value::list(found),
            ComprehensionKind::SortBy => return functions::sort_by_key(keyed),
            ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => Value::Map(Arc::new(entries)),
        })
    }
}

fn has(value: &Value, field: &str) -> EvaluationResult {
    match value {
        Value::Map(_) => Ok(Value::Bool(value.selected(field).is_some())),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Applies a field or index lookup. On an optional operand, or with `?`, the result is optional.
fn access(
    operand: Value,
    is_optional: bool,
    lookup: impl FnOnce(&Value) -> Result<Option<Value>, EvaluationError>,
    missing: impl FnOnce() -> EvaluationError,
) -> EvaluationResult {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => lookup(&inner).map(Value::optional),
        value if is_optional => lookup(&value).map(Value::optional),
        value => lookup(&value)?.ok_or_else(missing),
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
            Some(MapKey::Int(position)) => Ok(usize::try_from(position).ok().and_then(|at| items.get(at)).cloned()),
            _ => Err(EvaluationError::no_overload()),
        },
        _ => Err(EvaluationError::no_overload()),
    }
}
