//! The type checker.
//!
//! Operations on values of type `dyn` are accepted here and checked by the evaluator.

use std::sync::Arc;

use kubewright_core::Str;

use crate::ast::{BinaryOperator, Comprehension, ComprehensionKind, Expression, Node};
use crate::error::CompileError;
use crate::functions;
use crate::identifiers::escaped_word;
use crate::overloads::{self, Resolution};
use crate::types::Type;
use crate::value::Value;

type CheckedType = Result<Type, CompileError>;

/// Checks an expression and returns its type. Reports all errors, ordered by position.
pub(crate) fn check(text: &str, expression: &Expression, variables: &[(Str, Type)]) -> CheckedType {
    let mut checker = Checker::new(text, variables);
    let ty = checker.check(expression)?;
    checker.errors.sort_by_key(|(offset, _)| *offset);
    if checker.errors.is_empty() {
        return Ok(ty);
    }
    Err(CompileError::all(checker.errors.into_iter().map(|(_, error)| error)))
}

/// Infers types, and knows the variables in scope.
pub(crate) struct Checker<'a> {
    text: &'a str,
    /// Variables in scope, the innermost last.
    scope: Vec<(Str, Type)>,
    /// Whether list items may have different types, as in the argument of `format`.
    allows_mixed_lists: bool,
    /// Errors so far, with their positions.
    errors: Vec<(usize, CompileError)>,
}

impl<'a> Checker<'a> {
    /// A checker of expressions over these variables.
    pub(crate) fn new(text: &'a str, variables: &[(Str, Type)]) -> Self {
        Checker { text, scope: variables.to_vec(), allows_mixed_lists: false, errors: Vec::new() }
    }

    /// The type of a subexpression of an expression that has already been checked.
    pub(crate) fn type_of_checked(&mut self, expression: &Expression) -> Type {
        // A mixed list was accepted before, so its context allows it.
        self.allows_mixed_lists = true;
        let ty = self.check(expression).unwrap_or(Type::Dyn);
        self.errors.clear();
        ty
    }

    /// Adds variables to the scope. Pass the result to [`leave_scope`](Self::leave_scope).
    pub(crate) fn enter_scope(&mut self, variables: Vec<(Str, Type)>) -> usize {
        let before = self.scope.len();
        self.scope.extend(variables);
        before
    }

    /// Removes the variables that [`enter_scope`](Self::enter_scope) added.
    pub(crate) fn leave_scope(&mut self, before: usize) {
        self.scope.truncate(before);
    }

    /// Whether a variable of this name is in scope.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn error(&self, expression: &Expression, message: impl std::fmt::Display) -> CompileError {
        CompileError::at(self.text, expression.offset, message)
    }

    fn find(&self, name: &str) -> Option<&Type> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, ty)| ty)
    }

    /// Checks an expression with more variables in scope.
    fn check_with(&mut self, variables: Vec<(Str, Type)>, expression: &Expression) -> CheckedType {
        let before = self.enter_scope(variables);
        let ty = self.check(expression);
        self.leave_scope(before);
        ty
    }

    /// The type of an expression. An error is recorded, and the type is then `dyn`.
    fn check(&mut self, expression: &Expression) -> CheckedType {
        Ok(self.type_of(expression).unwrap_or_else(|error| {
            self.errors.push((expression.offset, error));
            Type::Dyn
        }))
    }

    fn type_of(&mut self, expression: &Expression) -> CheckedType {
        match &expression.node {
            Node::Literal(value) => Ok(literal_type(value)),
            Node::Identifier(name) => match self.find(name) {
                Some(ty) => Ok(ty.clone()),
                None if functions::type_by_name(name).is_some() => Ok(Type::Type),
                None => Err(self.error(expression, format!("undeclared reference to '{name}' (in container '')"))),
            },
            Node::Select { operand, field, is_optional } => {
                if expression.type_name().is_some() {
                    return Ok(Type::Type);
                }
                let ty = self.check(operand)?;
                let was_optional = matches!(ty, Type::Optional(_));
                let ty = self.field(expression, &ty, field)?;
                Ok(if *is_optional || was_optional { Type::optional(ty) } else { ty })
            }
            Node::Has { operand, field } => {
                let ty = self.check(operand)?;
                self.field(expression, &ty, field)?;
                Ok(Type::Bool)
            }
            Node::Index { operand, index, is_optional } => {
                let (operand, index) = (self.check(operand)?, self.check(index)?);
                let was_optional = matches!(operand, Type::Optional(_));
                let inner = match &operand {
                    Type::Optional(inner) => Type::clone(inner),
                    ty => ty.clone(),
                };
                let element = match &inner {
                    Type::List(items, _) if Type::Int.is_compatible(&index) || Type::Uint.is_compatible(&index) => {
                        Type::clone(items)
                    }
                    Type::Map(keys, values) if keys.is_compatible(&index) => Type::clone(values),
                    Type::Dyn => Type::Dyn,
                    _ => return Err(self.no_overload(expression, "_[_]", None, &[operand, index])),
                };
                Ok(if *is_optional || was_optional { Type::optional(element) } else { element })
            }
            Node::Call { target, function, arguments } => self.call(expression, target.as_deref(), function, arguments),
            Node::Not(operand) => match self.check(operand)? {
                ty if ty.is_compatible(&Type::Bool) => Ok(Type::Bool),
                ty => Err(self.no_overload(expression, "!_", None, &[ty])),
            },
            Node::Negate(operand) => match self.check(operand)? {
                ty @ (Type::Int | Type::Double | Type::Dyn | Type::Duration) => Ok(ty),
                ty => Err(self.no_overload(expression, "-_", None, &[ty])),
            },
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.check(left)?, self.check(right)?);
                let result = binary(*operator, &left, &right);
                result.ok_or_else(|| self.no_overload(expression, operator.name(), None, &[left, right]))
            }
            Node::And(operands) | Node::Or(operands) => {
                for operand in operands {
                    let ty = self.check(operand)?;
                    if !ty.is_compatible(&Type::Bool) {
                        return Err(self.error(operand, format!("expected type 'bool' but found '{ty}'")));
                    }
                }
                Ok(Type::Bool)
            }
            Node::Conditional { condition, then, otherwise } => {
                let condition = self.check(condition)?;
                let (then, otherwise) = (self.check(then)?, self.check(otherwise)?);
                if !condition.is_compatible(&Type::Bool) || !then.is_compatible(&otherwise) {
                    return Err(self.no_overload(expression, "_?_:_", None, &[condition, then, otherwise]));
                }
                Ok(if then == Type::Null { otherwise } else { then })
            }
            Node::List(items) => {
                let mut types = Vec::new();
                for (item, is_optional) in items {
                    types.push((item, unwrapped(self.check(item)?, *is_optional)));
                }
                Ok(Type::list(self.common_type(types)?))
            }
            Node::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, is_optional) in entries {
                    keys.push((key, self.check(key)?));
                    values.push((value, unwrapped(self.check(value)?, *is_optional)));
                }
                Ok(Type::Map(Arc::new(self.common_type(keys)?), Arc::new(self.common_type(values)?)))
            }
            Node::Struct { name, fields } => {
                let root = name.split('.').next().unwrap_or_default();
                if !self.declares(root) {
                    return Err(self.error(expression, format!("undeclared reference to '{name}' (in container '')")));
                }
                for (field, value, _) in fields {
                    self.check(value)?;
                    if root == "JSONPatch" && !matches!(field.as_str(), "op" | "path" | "from" | "value") {
                        return Err(self.error(expression, format!("undefined field '{field}'")));
                    }
                }
                Ok(Type::Opaque(if root == "JSONPatch" { "JSONPatch" } else { "Object" }))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap { target, name, body, is_flat } => {
                let inner = unwrapped(self.check(target)?, true);
                let ty = self.check_with(vec![(name.clone(), inner)], body)?;
                Ok(if *is_flat { ty } else { Type::optional(ty) })
            }
            Node::Bind { name, value, body } => {
                let ty = self.check(value)?;
                self.check_with(vec![(name.clone(), ty)], body)
            }
        }
    }

    fn field(&self, expression: &Expression, operand: &Type, field: &str) -> CheckedType {
        match operand {
            Type::Dyn => Ok(Type::Dyn),
            Type::Optional(inner) => self.field(expression, inner, field),
            Type::Map(_, values) => Ok(Type::clone(values)),
            Type::Object(fields) => match fields.get(field).or_else(|| fields.get(&escaped_word(field)?)) {
                Some(field) => Ok(field.ty.clone()),
                None => Err(self.error(expression, format!("undefined field '{field}'"))),
            },
            other => Err(self.error(expression, format!("type '{other}' does not support field selection"))),
        }
    }

    fn call(
        &mut self,
        call: &Expression,
        target: Option<&Expression>,
        function: &str,
        arguments: &[Expression],
    ) -> CheckedType {
        let namespace = match target.map(|target| &target.node) {
            Some(Node::Identifier(name)) if functions::is_namespace(name) && self.find(name).is_none() => {
                Some(name.clone())
            }
            _ => None,
        };
        let target = match (target, &namespace) {
            (Some(target), None) => Some(self.check(target)?),
            _ => None,
        };
        let allowed_mixed_lists = self.allows_mixed_lists;
        self.allows_mixed_lists |= function == "format";
        let types = arguments.iter().map(|argument| self.check(argument)).collect::<Result<Vec<_>, _>>();
        self.allows_mixed_lists = allowed_mixed_lists;
        let types = types?;
        let resolution = match &namespace {
            Some(namespace) => overloads::resolve_in(namespace, function, &types),
            None => overloads::resolve(target.as_ref(), function, &types),
        };
        // Reject literals that would fail in every evaluation. The last argument is the parsed one:
        // a pattern comes after its text.
        if let Some(argument @ Expression { node: Node::Literal(literal), .. }) = arguments.last()
            && functions::is_invalid_literal(function, literal)
        {
            return Err(self.error(argument, format!("invalid {function} argument")));
        }
        match resolution {
            Resolution::Result(ty) => Ok(ty),
            Resolution::Unknown => {
                Err(self.error(call, format!("undeclared reference to '{function}' (in container '')")))
            }
            Resolution::NoMatch => Err(self.no_overload(call, function, target.as_ref(), &types)),
        }
    }

    fn comprehension(&mut self, fold: &Comprehension) -> CheckedType {
        let target = self.check(&fold.target)?;
        let Some((first, second)) = iteration_types(&target, fold.second.is_some()) else {
            let why = format!(
                "expression of type '{target}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return Err(self.error(&fold.target, why));
        };
        let mut variables = vec![(fold.name.clone(), first.clone())];
        variables.extend(fold.second.iter().map(|name| (name.clone(), second.clone())));
        if let Some(condition) = &fold.condition {
            self.check_with(variables.clone(), condition)?;
        }
        let body = self.check_with(variables, &fold.body)?;
        let is_test = matches!(
            fold.kind,
            ComprehensionKind::All
                | ComprehensionKind::Exists
                | ComprehensionKind::ExistsOne
                | ComprehensionKind::Filter
        );
        if is_test && !body.is_compatible(&Type::Bool) {
            return Err(self.error(&fold.body, format!("expected type 'bool' but found '{body}'")));
        }
        Ok(match fold.kind {
            ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => Type::Bool,
            ComprehensionKind::Filter | ComprehensionKind::SortBy => Type::list(first),
            ComprehensionKind::Map => Type::list(body),
            ComprehensionKind::TransformMap => Type::Map(Arc::new(first), Arc::new(body)),
            ComprehensionKind::TransformMapEntry => body,
        })
    }

    /// The common type of list items or map entries, `dyn` if they differ.
    fn common_type(&self, types: Vec<(&Expression, Type)>) -> CheckedType {
        let Some((_, first)) = types.first().cloned() else { return Ok(Type::Dyn) };
        match types.iter().find(|(_, ty)| *ty != first) {
            None => Ok(first),
            Some((item, other)) if !self.allows_mixed_lists && !first.is_compatible(other) => {
                Err(self.error(item, format!("expected type '{first}' but found '{other}'")))
            }
            Some(_) => Ok(Type::Dyn),
        }
    }

    fn no_overload(&self, at: &Expression, function: &str, target: Option<&Type>, arguments: &[Type]) -> CompileError {
        let arguments = arguments.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        let target = target.map(|target| format!("{target}.")).unwrap_or_default();
        self.error(at, format!("found no matching overload for '{function}' applied to '{target}({arguments})'"))
    }
}

/// The types of the iteration variables of a comprehension, `None` if the type is not iterable.
pub(crate) fn iteration_types(target: &Type, has_second: bool) -> Option<(Type, Type)> {
    Some(match target {
        Type::List(items, _) if has_second => (Type::Int, Type::clone(items)),
        Type::List(items, _) => (Type::clone(items), Type::Dyn),
        Type::Map(keys, values) => (Type::clone(keys), Type::clone(values)),
        Type::Dyn => (Type::Dyn, Type::Dyn),
        _ => return None,
    })
}

fn binary(operator: BinaryOperator, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Bytes, Double, Duration, Dyn, Int, List, String, Timestamp, Uint};
    let ordered =
        |ty: &Type| matches!(ty, Type::Bool | Int | Uint | Double | String | Bytes | Duration | Timestamp | Dyn);
    let is_number = |ty: &Type| matches!(ty, Int | Uint | Double);
    match operator {
        BinaryOperator::Equal | BinaryOperator::Unequal => left.is_compatible(right).then_some(Type::Bool),
        BinaryOperator::Less
        | BinaryOperator::LessOrEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterOrEqual => {
            let is_compatible = left.is_compatible(right) || (is_number(left) && is_number(right));
            (is_compatible && ordered(left) && ordered(right)).then_some(Type::Bool)
        }
        BinaryOperator::In => match right {
            Dyn => Some(Type::Bool),
            List(items, _) => items.is_compatible(left).then_some(Type::Bool),
            Type::Map(keys, _) => keys.is_compatible(left).then_some(Type::Bool),
            _ => None,
        },
        _ => match (operator, left, right) {
            (_, Dyn, Dyn) => Some(Dyn),
            (BinaryOperator::Add, Timestamp, Duration) | (BinaryOperator::Add, Duration, Timestamp) => Some(Timestamp),
            (BinaryOperator::Subtract, Timestamp, Duration) => Some(Timestamp),
            (BinaryOperator::Subtract, Timestamp, Timestamp) => Some(Duration),
            (BinaryOperator::Add | BinaryOperator::Subtract, Duration, Duration) => Some(Duration),
            (BinaryOperator::Add, String, String) => Some(String),
            (BinaryOperator::Add, Bytes, Bytes) => Some(Bytes),
            (BinaryOperator::Add, List(one, _), List(two, _)) if one.is_compatible(two) => Some(left.clone()),
            (BinaryOperator::Remainder, Double, Double) => None,
            (_, one, two) if one == two && is_number(one) => Some(one.clone()),
            (_, Dyn, other) | (_, other, Dyn) if !matches!(other, Type::Bool | Type::Null | Type::Map(..)) => Some(Dyn),
            _ => None,
        },
    }
}

fn unwrapped(ty: Type, is_optional: bool) -> Type {
    match ty {
        Type::Optional(inner) if is_optional => Type::clone(&inner),
        ty => ty,
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}
