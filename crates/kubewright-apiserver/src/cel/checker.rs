//! Finds the types of an expression, and what cannot be right about it.
//!
//! Where a type is not known ahead, everything is allowed, and the evaluator decides.

use std::sync::Arc;

use super::error::CompileError;
use super::functions;
use super::signatures;
use super::syntax::{Expression, Fold, FoldKind, Node, Operator};
use super::types::Type;
use super::value::Value;

type Checked = Result<Type, CompileError>;

/// The type of an expression over these variables.
pub(super) fn check(text: &str, expression: &Expression, variables: &[(&str, Type)]) -> Checked {
    let mut checker = Checker::new(text, variables);
    let ty = checker.check(expression)?;
    checker.errors.sort_by_key(|(offset, _)| *offset);
    match checker.errors.is_empty() {
        true => Ok(ty),
        false => Err(CompileError::all(checker.errors.into_iter().map(|(_, error)| error))),
    }
}

pub(super) struct Checker<'a> {
    text: &'a str,
    /// All names that are known, the innermost last.
    names: Vec<(String, Type)>,
    /// Whether lists may hold values of several types, as those do that are to be formatted.
    is_mixed: bool,
    /// What is wrong so far, and where.
    errors: Vec<(usize, CompileError)>,
}

impl<'a> Checker<'a> {
    /// A checker of expressions over these variables.
    pub(super) fn new(text: &'a str, variables: &[(&str, Type)]) -> Self {
        let names = variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
        Checker { text, names, is_mixed: false, errors: Vec::new() }
    }

    /// The type of a part of an expression that has been checked as a whole.
    pub(super) fn type_of_part(&mut self, part: &Expression) -> Type {
        // Lists of several types are right somewhere in it, or it would have been refused.
        self.is_mixed = true;
        let ty = self.check(part).unwrap_or(Type::Dyn);
        self.errors.clear();
        ty
    }

    /// Makes more names known, until [`leave`](Self::leave) is given what this returns.
    pub(super) fn enter(&mut self, names: Vec<(String, Type)>) -> usize {
        let before = self.names.len();
        self.names.extend(names);
        before
    }

    pub(super) fn leave(&mut self, before: usize) {
        self.names.truncate(before);
    }

    /// Whether there is a variable of this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn error(&self, expression: &Expression, message: impl std::fmt::Display) -> CompileError {
        CompileError::at(self.text, expression.offset, message)
    }

    fn find(&self, name: &str) -> Option<&Type> {
        self.names.iter().rev().find(|(known, _)| known == name).map(|(_, ty)| ty)
    }

    /// Checks a part in which more names are known.
    fn within(&mut self, names: Vec<(String, Type)>, part: &Expression) -> Checked {
        let before = self.enter(names);
        let ty = self.check(part);
        self.leave(before);
        ty
    }

    /// The type of a part. What is wrong with it is noted, and its type then not known.
    fn check(&mut self, expression: &Expression) -> Checked {
        Ok(self.type_of(expression).unwrap_or_else(|error| {
            self.errors.push((expression.offset, error));
            Type::Dyn
        }))
    }

    fn type_of(&mut self, expression: &Expression) -> Checked {
        match &expression.node {
            Node::Literal(value) => Ok(type_of(value)),
            Node::Identifier(name) => match self.find(name) {
                Some(ty) => Ok(ty.clone()),
                None if functions::type_by_name(name).is_some() => Ok(Type::Meta),
                None => Err(self.error(expression, format!("undeclared reference to '{name}' (in container '')"))),
            },
            Node::Select { operand, field, is_optional } => {
                if expression.type_name().is_some() {
                    return Ok(Type::Meta);
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
                    Type::List(items, _) if Type::Int.fits(&index) || Type::Uint.fits(&index) => Type::clone(items),
                    Type::Map(keys, values) if keys.fits(&index) => Type::clone(values),
                    Type::Dyn => Type::Dyn,
                    _ => return Err(self.no_overload(expression, "_[_]", None, &[operand, index])),
                };
                Ok(if *is_optional || was_optional { Type::optional(element) } else { element })
            }
            Node::Call { target, function, arguments } => self.call(expression, target.as_deref(), function, arguments),
            Node::Not(operand) => match self.check(operand)? {
                ty if ty.fits(&Type::Bool) => Ok(Type::Bool),
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
            Node::All(parts) | Node::Any(parts) => {
                for part in parts {
                    let ty = self.check(part)?;
                    if !ty.fits(&Type::Bool) {
                        return Err(self.error(part, format!("expected type 'bool' but found '{ty}'")));
                    }
                }
                Ok(Type::Bool)
            }
            Node::Choice { condition, then, otherwise } => {
                let condition = self.check(condition)?;
                let (then, otherwise) = (self.check(then)?, self.check(otherwise)?);
                if !condition.fits(&Type::Bool) || !then.fits(&otherwise) {
                    return Err(self.no_overload(expression, "_?_:_", None, &[condition, then, otherwise]));
                }
                Ok(if then == Type::Null { otherwise } else { then })
            }
            Node::List(items) => {
                let mut types = Vec::new();
                for (item, is_optional) in items {
                    types.push((item, unwrapped(self.check(item)?, *is_optional)));
                }
                Ok(Type::list(self.common(types)?))
            }
            Node::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, is_optional) in entries {
                    keys.push((key, self.check(key)?));
                    values.push((value, unwrapped(self.check(value)?, *is_optional)));
                }
                Ok(Type::Map(Arc::new(self.common(keys)?), Arc::new(self.common(values)?)))
            }
            Node::Struct { name, fields } => {
                let root = name.split('.').next().unwrap_or_default();
                if !self.knows(root) {
                    return Err(self.error(expression, format!("undeclared reference to '{name}' (in container '')")));
                }
                for (field, value, _) in fields {
                    self.check(value)?;
                    if root == "JSONPatch" && !matches!(field.as_str(), "op" | "path" | "from" | "value") {
                        return Err(self.error(expression, format!("undefined field '{field}'")));
                    }
                }
                Ok(Type::Named(if root == "JSONPatch" { "JSONPatch" } else { "Object" }))
            }
            Node::Fold(fold) => self.fold(fold),
            Node::OptionalMap { target, name, body, is_flat } => {
                let inner = unwrapped(self.check(target)?, true);
                let ty = self.within(vec![(name.to_string(), inner)], body)?;
                Ok(if *is_flat { ty } else { Type::optional(ty) })
            }
            Node::Bind { name, value, body } => {
                let ty = self.check(value)?;
                self.within(vec![(name.to_string(), ty)], body)
            }
        }
    }

    fn field(&self, expression: &Expression, operand: &Type, field: &str) -> Checked {
        match operand {
            Type::Dyn => Ok(Type::Dyn),
            Type::Optional(inner) => self.field(expression, inner, field),
            Type::Map(_, values) => Ok(Type::clone(values)),
            Type::Object(fields) => match fields.get(field) {
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
    ) -> Checked {
        let space = match target.map(|target| &target.node) {
            Some(Node::Identifier(name)) if functions::is_space(name) && self.find(name).is_none() => {
                Some(name.clone())
            }
            _ => None,
        };
        let target = match (target, &space) {
            (Some(target), None) => Some(self.check(target)?),
            _ => None,
        };
        let was_mixed = self.is_mixed;
        self.is_mixed |= function == "format";
        let types = arguments.iter().map(|argument| self.check(argument)).collect::<Result<Vec<_>, _>>();
        self.is_mixed = was_mixed;
        let types = types?;
        let (is_known, result) = match &space {
            Some(space) => signatures::find_in(space, function, &types),
            None => signatures::find(target.as_ref(), function, &types),
        };
        // What can be seen to fail whenever it is evaluated is refused at once.
        // The last argument is the one that is read: a pattern comes after its text.
        if let Some(argument @ Expression { node: Node::Literal(literal), .. }) = arguments.last()
            && functions::is_bad_literal(function, literal)
        {
            return Err(self.error(argument, format!("invalid {function} argument")));
        }
        match (is_known, result) {
            (_, Some(ty)) => Ok(ty),
            (false, None) => Err(self.error(call, format!("undeclared reference to '{function}' (in container '')"))),
            (true, None) => Err(self.no_overload(call, function, target.as_ref(), &types)),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Checked {
        let target = self.check(&fold.target)?;
        let Some((first, second)) = fold_types(&target, fold.second.is_some()) else {
            let why = format!(
                "expression of type '{target}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return Err(self.error(&fold.target, why));
        };
        let mut names = vec![(fold.name.to_string(), first.clone())];
        names.extend(fold.second.iter().map(|name| (name.to_string(), second.clone())));
        if let Some(condition) = &fold.condition {
            self.within(names.clone(), condition)?;
        }
        let body = self.within(names, &fold.body)?;
        let is_test = matches!(fold.kind, FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter);
        if is_test && !body.fits(&Type::Bool) {
            return Err(self.error(&fold.body, format!("expected type 'bool' but found '{body}'")));
        }
        Ok(match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Filter | FoldKind::SortBy => Type::list(first),
            FoldKind::Map => Type::list(body),
            FoldKind::TransformMap => Type::Map(Arc::new(first), Arc::new(body)),
            FoldKind::TransformMapEntry => body,
        })
    }

    /// The type of all of these, which has to be one where it is known.
    fn common(&self, types: Vec<(&Expression, Type)>) -> Checked {
        let Some((_, first)) = types.first().cloned() else { return Ok(Type::Dyn) };
        match types.iter().find(|(_, ty)| *ty != first) {
            None => Ok(first),
            Some((item, other)) if !self.is_mixed && !first.fits(other) => {
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

/// The types of the variables of a macro that walks over this, `None` if it cannot.
pub(super) fn fold_types(target: &Type, has_second: bool) -> Option<(Type, Type)> {
    Some(match target {
        Type::List(items, _) if has_second => (Type::Int, Type::clone(items)),
        Type::List(items, _) => (Type::clone(items), Type::Dyn),
        Type::Map(keys, values) => (Type::clone(keys), Type::clone(values)),
        Type::Dyn => (Type::Dyn, Type::Dyn),
        _ => return None,
    })
}

fn binary(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Bytes, Double, Duration, Dyn, Int, List, String, Timestamp, Uint};
    let ordered =
        |ty: &Type| matches!(ty, Type::Bool | Int | Uint | Double | String | Bytes | Duration | Timestamp | Dyn);
    let is_number = |ty: &Type| matches!(ty, Int | Uint | Double);
    match operator {
        Operator::Equal | Operator::Unequal => left.fits(right).then_some(Type::Bool),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            let fits = left.fits(right) || (is_number(left) && is_number(right));
            (fits && ordered(left) && ordered(right)).then_some(Type::Bool)
        }
        Operator::In => match right {
            Dyn => Some(Type::Bool),
            List(items, _) => items.fits(left).then_some(Type::Bool),
            Type::Map(keys, _) => keys.fits(left).then_some(Type::Bool),
            _ => None,
        },
        _ => match (operator, left, right) {
            (_, Dyn, Dyn) => Some(Dyn),
            (Operator::Add, Timestamp, Duration) | (Operator::Add, Duration, Timestamp) => Some(Timestamp),
            (Operator::Subtract, Timestamp, Duration) => Some(Timestamp),
            (Operator::Subtract, Timestamp, Timestamp) => Some(Duration),
            (Operator::Add | Operator::Subtract, Duration, Duration) => Some(Duration),
            (Operator::Add, String, String) => Some(String),
            (Operator::Add, Bytes, Bytes) => Some(Bytes),
            (Operator::Add, List(one, _), List(two, _)) if one.fits(two) => Some(left.clone()),
            (Operator::Remainder, Double, Double) => None,
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

fn type_of(value: &Value) -> Type {
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
