//! Walks an expression and sums up the costs of its nodes.

use kubewright_core::Str;

use super::calls;
use super::estimate::{EntrySize, Estimate, NEW_LIST, PER_CHARACTER};
use super::size::{ITEMS, KEYS, SizeEstimate, SizeLimits, VALUES, scale};
use crate::ast::{BinaryOperator, Comprehension, ComprehensionKind, Expression, Node};
use crate::checker::{Checker, iteration_types};
use crate::functions;
use crate::types::Type;
use crate::value::Value;

/// The step of a path for the index variable of a list.
const INDICES: &str = "@indices";

const NEW_MAP: u64 = 30;
const NEW_OBJECT: u64 = 40;

/// The highest cost of an expression whose variables all have the same limits.
pub(crate) fn estimate(expression: &Expression, variables: &[(Str, Type)], limits: &SizeLimits) -> u64 {
    let mut estimator = Estimator { checker: Checker::new("", variables), locals: Vec::new(), limits };
    estimator.estimate(expression).cost
}

/// A variable that a macro declares.
struct Local {
    name: Str,
    path: Vec<Str>,
    size: Option<SizeEstimate>,
}

struct Estimator<'a> {
    checker: Checker<'a>,
    locals: Vec<Local>,
    limits: &'a SizeLimits,
}

impl Estimator<'_> {
    fn estimate(&mut self, expression: &Expression) -> Estimate {
        let ty = self.checker.type_of_checked(expression);
        let mut estimate = match &expression.node {
            Node::Literal(value) => Estimate { size: literal_size(value), ..Estimate::of_cost(0) },
            Node::Identifier(name) => match self.locals.iter().rev().find(|local| local.name == *name) {
                Some(local) => Estimate { path: local.path.clone(), ..Estimate::of_cost(1) },
                None => Estimate { path: vec![name.clone()], ..Estimate::of_cost(1) },
            },
            Node::Select { .. } if expression.type_name().is_some() => Estimate::of_cost(1),
            Node::Select { operand, is_optional: true, .. } => {
                Estimate::of_cost(self.estimate(operand).cost.saturating_add(1))
            }
            Node::Select { operand, field, .. } => {
                let operand = self.estimate(operand);
                let price = u64::from(matches!(operand.ty, Type::Map(..) | Type::Object(_)));
                Estimate { path: below(&operand.path, field), ..Estimate::of_cost(operand.cost.saturating_add(price)) }
            }
            // `has` itself is free.
            Node::Has { operand, .. } => Estimate::of_cost(self.estimate(operand).cost),
            Node::Index { operand, index, is_optional } => {
                let (operand, index) = (self.estimate(operand), self.estimate(index));
                let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
                if *is_optional || matches!(operand.ty, Type::Optional(_)) {
                    Estimate::of_cost(cost)
                } else {
                    let step = if matches!(operand.ty, Type::List(..)) { ITEMS } else { VALUES };
                    let size = operand.entry.map(|entry| entry.value);
                    Estimate { size, path: below(&operand.path, step), ..Estimate::of_cost(cost) }
                }
            }
            Node::Call { target, function, arguments } => self.call(target.as_deref(), function, arguments),
            Node::Negate(operand) if matches!(operand.node, Node::Literal(_)) => Estimate::of_cost(0),
            Node::Not(operand) | Node::Negate(operand) => {
                Estimate::of_cost(self.estimate(operand).cost.saturating_add(1))
            }
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.estimate(left), self.estimate(right));
                binary(*operator, &left, &right)
            }
            Node::And(operands) | Node::Or(operands) => Estimate::of_cost(
                operands.iter().fold(0, |sum, operand| sum.saturating_add(self.estimate(operand).cost)),
            ),
            Node::Conditional { condition, then, otherwise } => {
                let (condition, then, otherwise) =
                    (self.estimate(condition), self.estimate(then), self.estimate(otherwise));
                conditional(&condition, &then, &otherwise)
            }
            Node::List(items) => {
                let items: Vec<Estimate> = items.iter().map(|(item, _)| self.estimate(item)).collect();
                list(&items)
            }
            Node::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, _) in entries {
                    keys.push(self.estimate(key));
                    values.push(self.estimate(value));
                }
                let (key, value) = (common_size(&keys), common_size(&values));
                let size = Some(SizeEstimate::exactly(entries.len() as u64));
                let cost = total(&keys).saturating_add(total(&values)).saturating_add(NEW_MAP);
                Estimate { size, entry: Some(EntrySize { is_list: false, key, value }), ..Estimate::of_cost(cost) }
            }
            Node::Struct { fields, .. } => {
                let fields: Vec<Estimate> = fields.iter().map(|(_, value, _)| self.estimate(value)).collect();
                Estimate::of_cost(total(&fields).saturating_add(NEW_OBJECT))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap { target, name, body, is_flat } => {
                let value = self.estimate(target);
                let inner = match &value.ty {
                    Type::Optional(inner) => Type::clone(inner),
                    ty => ty.clone(),
                };
                let bound = Local { name: name.clone(), path: Vec::new(), size: None };
                let body = self.estimate_with(vec![(bound, inner)], body);
                // The macro expands to two evaluations of the target: `hasValue` and `value`.
                let price = if *is_flat { NEW_LIST + 2 } else { NEW_LIST + 3 };
                Estimate::of_cost(value.cost.saturating_mul(2).saturating_add(body.cost).saturating_add(price))
            }
            Node::Bind { name, value, body } => {
                let value = self.estimate(value);
                let bound = Local { name: name.clone(), path: value.path.clone(), size: value.size };
                let body = self.estimate_with(vec![(bound, value.ty.clone())], body);
                // The macro expands to a comprehension over an empty list.
                Estimate { cost: value.cost.saturating_add(body.cost).saturating_add(NEW_LIST), ..body }
            }
        };
        estimate.ty = ty;
        estimate.size = estimate.size.or_else(|| self.size_of(expression, &estimate));
        estimate
    }

    /// The size of a value that the expression does not construct.
    fn size_of(&self, expression: &Expression, estimate: &Estimate) -> Option<SizeEstimate> {
        if let Some(max) = self.limits.at(&estimate.path) {
            return Some(SizeEstimate { min: 0, max });
        }
        if is_scalar(&estimate.ty) {
            return Some(SizeEstimate::exactly(1));
        }
        let Node::Identifier(name) = &expression.node else { return None };
        self.locals.iter().rev().find(|local| local.name == *name)?.size
    }

    /// Estimates an expression with more variables in scope.
    fn estimate_with(&mut self, variables: Vec<(Local, Type)>, expression: &Expression) -> Estimate {
        let before = self.locals.len();
        let types = variables.iter().map(|(local, ty)| (local.name.clone(), ty.clone())).collect();
        self.locals.extend(variables.into_iter().map(|(local, _)| local));
        let outer = self.checker.enter_scope(types);
        let estimate = self.estimate(expression);
        self.checker.leave_scope(outer);
        self.locals.truncate(before);
        estimate
    }

    fn call(&mut self, target: Option<&Expression>, function: &str, arguments: &[Expression]) -> Estimate {
        let namespace = match target.map(|target| &target.node) {
            Some(Node::Identifier(name)) if functions::is_namespace(name) && !self.checker.declares(name) => {
                Some(name.clone())
            }
            _ => None,
        };
        let target = target.filter(|_| namespace.is_none()).map(|target| self.estimate(target));
        let parts: Vec<Estimate> = arguments.iter().map(|argument| self.estimate(argument)).collect();
        let numbers: Vec<Option<u64>> = arguments.iter().map(integer_literal).collect();
        let item = |list: &Estimate| {
            let ty = match &list.ty {
                Type::List(items, _) => Type::clone(items),
                Type::Map(keys, _) => Type::clone(keys),
                _ => return None,
            };
            let path = if list.path.is_empty() { Vec::new() } else { below(&list.path, ITEMS) };
            let size = self.limits.at(&path).map_or(SizeEstimate::UNKNOWN, |max| SizeEstimate { min: 0, max });
            Some((ty, size))
        };
        let call = calls::FunctionCall {
            namespace: namespace.as_deref().unwrap_or_default(),
            function,
            target: target.as_ref(),
            arguments: &parts,
            numbers: &numbers,
            item: target.as_ref().and_then(item),
        };
        let priced = call.price();
        let before = target.as_ref().map_or(0, |target| target.cost).saturating_add(total(&parts));
        let mut estimate = Estimate { size: priced.size, ..Estimate::of_cost(before.saturating_add(priced.cost)) };
        if let ("dyn", [argument]) = (function, &parts[..]) {
            estimate.size = argument.size;
            estimate.entry = argument.entry;
        }
        estimate
    }

    fn comprehension(&mut self, fold: &Comprehension) -> Estimate {
        let range = self.estimate(&fold.target);
        let types = iteration_types(&range.ty, fold.second.is_some()).unwrap_or((Type::Dyn, Type::Dyn));
        let is_list = range.entry.map_or(matches!(range.ty, Type::List(..)), |entry| entry.is_list);
        let of = |which: fn(EntrySize) -> SizeEstimate| range.entry.map(which);
        let key = Local {
            name: fold.name.clone(),
            path: below(&range.path, if is_list { INDICES } else { KEYS }),
            size: of(|entry| entry.key),
        };
        let value = |name: &Str| Local {
            name: name.clone(),
            path: below(&range.path, if is_list { ITEMS } else { VALUES }),
            size: of(|entry| entry.value),
        };
        let variables = || match &fold.second {
            Some(second) => vec![
                (Local { path: key.path.clone(), name: key.name.clone(), ..key }, types.0.clone()),
                (value(second), types.1.clone()),
            ],
            None if is_list => vec![(value(&fold.name), types.0.clone())],
            None => vec![(Local { path: key.path.clone(), name: key.name.clone(), ..key }, types.0.clone())],
        };
        let condition = fold.condition.as_ref().map(|condition| self.estimate_with(variables(), condition).cost);
        let body = self.estimate_with(variables(), &fold.body);
        // The cost of the expanded loop: initialization, each step, and the result.
        let (start, each, end) = match fold.kind {
            ComprehensionKind::All => (0, body.cost.saturating_add(3), 1),
            ComprehensionKind::Exists => (0, body.cost.saturating_add(4), 1),
            ComprehensionKind::ExistsOne => (0, body.cost.saturating_add(2), 2),
            ComprehensionKind::Filter => (NEW_LIST, body.cost.saturating_add(NEW_LIST + 3), 1),
            ComprehensionKind::Map | ComprehensionKind::SortBy => (NEW_LIST, body.cost.saturating_add(NEW_LIST + 2), 1),
            ComprehensionKind::TransformMap => (NEW_MAP, body.cost.saturating_add(3), 1),
            ComprehensionKind::TransformMapEntry => (NEW_MAP, body.cost.saturating_add(2), 1),
        };
        let each = each.saturating_add(condition.unwrap_or_default());
        let count = range.size();
        let cost = range.cost.saturating_add(start).saturating_add(count.max.saturating_mul(each)).saturating_add(end);
        let made = |size: SizeEstimate| EntrySize {
            is_list: true,
            key: SizeEstimate::exactly(1),
            value: SizeEstimate { min: 0, ..size },
        };
        match fold.kind {
            ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                Estimate::of_cost(cost)
            }
            ComprehensionKind::Filter | ComprehensionKind::SortBy => {
                let variable = Expression { offset: 0, depth: 0, node: Node::Identifier(fold.name.clone()) };
                let item = self.estimate_with(variables(), &variable);
                Estimate { size: Some(count), entry: Some(made(item.size())), ..Estimate::of_cost(cost) }
            }
            ComprehensionKind::Map => {
                Estimate { size: Some(count), entry: Some(made(body.size())), ..Estimate::of_cost(cost) }
            }
            ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => {
                Estimate { size: Some(count), ..Estimate::of_cost(cost) }
            }
        }
    }
}

fn total(parts: &[Estimate]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.cost))
}

/// The union of the sizes, zero if there are no estimates.
fn common_size(parts: &[Estimate]) -> SizeEstimate {
    parts.iter().map(Estimate::size).reduce(SizeEstimate::union).unwrap_or(SizeEstimate::exactly(0))
}

fn list(items: &[Estimate]) -> Estimate {
    let entry = EntrySize { is_list: true, key: SizeEstimate::exactly(1), value: common_size(items) };
    let size = Some(SizeEstimate::exactly(items.len() as u64));
    Estimate { size, entry: Some(entry), ..Estimate::of_cost(total(items).saturating_add(NEW_LIST)) }
}

fn conditional(condition: &Estimate, then: &Estimate, otherwise: &Estimate) -> Estimate {
    let entry = then.entry.zip(otherwise.entry).map(|(one, two)| one.union(two));
    let cost = condition.cost.saturating_add(then.cost.max(otherwise.cost));
    Estimate { size: Some(then.size().union(otherwise.size())), entry, ..Estimate::of_cost(cost) }
}

fn binary(operator: BinaryOperator, left: &Estimate, right: &Estimate) -> Estimate {
    let before = left.cost.saturating_add(right.cost);
    let with = |cost: u64| Estimate::of_cost(before.saturating_add(cost));
    let is_text = |ty: &Type| matches!(ty, Type::String | Type::Bytes);
    let is_dyn = |ty: &Type| matches!(ty, Type::Dyn);
    let smaller = || scale(left.size().max.min(right.size().max), PER_CHARACTER);
    match operator {
        BinaryOperator::Add => {
            let (one, two) = (&left.ty, &right.ty);
            let size = left.size().plus(right.size());
            let entry = left.entry.zip(right.entry).map(|(one, two)| one.union(two));
            if matches!((one, two), (Type::List(..), _) | (_, Type::List(..))) {
                Estimate { size: Some(size), entry, ..with(1) }
            } else if is_text(one) || is_text(two) || (is_dyn(one) && is_dyn(two)) {
                Estimate { size: Some(size), entry, ..with(size.cost(PER_CHARACTER)) }
            } else {
                with(1)
            }
        }
        BinaryOperator::Equal | BinaryOperator::Unequal => match (&left.ty, &right.ty) {
            (Type::Opaque("ip" | "cidr" | "quantity" | "semver"), two)
                if left.ty == *two && operator == BinaryOperator::Equal =>
            {
                with(1)
            }
            _ => with(smaller()),
        },
        BinaryOperator::Less
        | BinaryOperator::LessOrEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterOrEqual => {
            if is_text(&left.ty) || is_text(&right.ty) {
                with(smaller())
            } else if is_dyn(&left.ty) && is_dyn(&right.ty) {
                with(smaller().max(1))
            } else {
                with(1)
            }
        }
        BinaryOperator::In => match &right.ty {
            Type::List(..) => with(right.size().max),
            Type::Dyn => with(right.size().max.max(1)),
            _ => with(1),
        },
        _ => with(1),
    }
}

fn below(path: &[Str], step: &str) -> Vec<Str> {
    path.iter().cloned().chain([Str::from(step)]).collect()
}

fn literal_size(value: &Value) -> Option<SizeEstimate> {
    Some(SizeEstimate::exactly(match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Bool(_) | Value::Double(_) | Value::Int(_) | Value::Uint(_) | Value::Null => 1,
        _ => return None,
    }))
}

fn integer_literal(expression: &Expression) -> Option<u64> {
    match &expression.node {
        Node::Literal(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
