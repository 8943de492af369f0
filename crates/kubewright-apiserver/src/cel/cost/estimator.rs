//! Walks an expression, and adds up what its parts cost at most.

use kubewright_core::Str;

use super::{Extent, Size, calls};
use crate::cel::checker::{Checker, fold_types};
use crate::cel::syntax::{Expression, Fold, FoldKind, Node, Operator};
use crate::cel::types::Type;
use crate::cel::value::Value;
use crate::cel::{Environment, functions};

/// Steps of a path that are no fields.
pub(super) const ITEMS: &str = "@items";
pub(super) const VALUES: &str = "@values";
pub(super) const KEYS: &str = "@keys";
const INDICES: &str = "@indices";

/// Prices of what makes something new.
pub(super) const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;
const NEW_OBJECT: u64 = 40;
/// Price of each character of a text that is looked at.
pub(super) const PER_CHARACTER: f64 = 0.1;

/// What an expression costs at most, where values of all variables have this extent.
pub(in crate::cel) fn estimate(expression: &Expression, environment: &Environment<'_>, extent: &Extent) -> u64 {
    let mut estimator = Estimator { checker: Checker::new("", environment), locals: Vec::new(), extent };
    estimator.part(expression).cost
}

/// What is known of a part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
    pub(super) entry: Option<Entry>,
    /// Where its value lies in a variable, empty if it is not a part of one.
    pub(super) path: Vec<Str>,
    pub(super) ty: Type,
}

/// How large the parts of a list or a map are that the expression makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entry {
    fn union(self, other: Entry) -> Entry {
        Entry { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

impl Known {
    pub(super) fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// A variable of a macro.
struct Local {
    name: Str,
    path: Vec<Str>,
    size: Option<Size>,
}

struct Estimator<'a> {
    /// Knows the types of the parts.
    checker: Checker<'a>,
    locals: Vec<Local>,
    extent: &'a Extent,
}

impl Estimator<'_> {
    fn part(&mut self, part: &Expression) -> Known {
        let ty = self.checker.type_of_part(part);
        let mut known = match &part.node {
            Node::Literal(value) => Known { size: literal_size(value), ..plain(0) },
            Node::Identifier(name) => match self.locals.iter().rev().find(|local| local.name == *name) {
                Some(local) => Known { path: local.path.clone(), ..plain(1) },
                None => Known { path: vec![name.clone()], ..plain(1) },
            },
            Node::Select { .. } if part.type_name().is_some() => plain(1),
            Node::Select { operand, is_optional: true, .. } => plain(self.part(operand).cost.saturating_add(1)),
            Node::Select { operand, field, .. } => {
                let operand = self.part(operand);
                let price = u64::from(matches!(operand.ty, Type::Map(..) | Type::Object(_)));
                Known { path: below(&operand.path, field), ..plain(operand.cost.saturating_add(price)) }
            }
            // To ask whether something is there costs nothing.
            Node::Has { operand, .. } => plain(self.part(operand).cost),
            Node::Index { operand, index, is_optional } => {
                let (operand, index) = (self.part(operand), self.part(index));
                let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
                if *is_optional || matches!(operand.ty, Type::Optional(_)) {
                    plain(cost)
                } else {
                    let step = if matches!(operand.ty, Type::List(..)) { ITEMS } else { VALUES };
                    let size = operand.entry.map(|entry| entry.value);
                    Known { size, path: below(&operand.path, step), ..plain(cost) }
                }
            }
            Node::Call { target, function, arguments } => self.call(target.as_deref(), function, arguments),
            Node::Negate(operand) if matches!(operand.node, Node::Literal(_)) => plain(0),
            Node::Not(operand) | Node::Negate(operand) => plain(self.part(operand).cost.saturating_add(1)),
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.part(left), self.part(right));
                binary(*operator, &left, &right)
            }
            Node::All(parts) | Node::Any(parts) => {
                plain(parts.iter().fold(0, |sum, part| sum.saturating_add(self.part(part).cost)))
            }
            Node::Choice { condition, then, otherwise } => {
                let (condition, then, otherwise) = (self.part(condition), self.part(then), self.part(otherwise));
                choice(&condition, &then, &otherwise)
            }
            Node::List(items) => {
                let items: Vec<Known> = items.iter().map(|(item, _)| self.part(item)).collect();
                list(&items)
            }
            Node::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, _) in entries {
                    keys.push(self.part(key));
                    values.push(self.part(value));
                }
                let (key, value) = (common_size(&keys), common_size(&values));
                let size = Some(Size::exactly(entries.len() as u64));
                let cost = total(&keys).saturating_add(total(&values)).saturating_add(NEW_MAP);
                Known { size, entry: Some(Entry { is_list: false, key, value }), ..plain(cost) }
            }
            Node::Struct { fields, .. } => {
                let fields: Vec<Known> = fields.iter().map(|(_, value, _)| self.part(value)).collect();
                plain(total(&fields).saturating_add(NEW_OBJECT))
            }
            Node::Fold(fold) => self.fold(fold),
            Node::OptionalMap { target, name, body, is_flat } => {
                let value = self.part(target);
                let inner = match &value.ty {
                    Type::Optional(inner) => Type::clone(inner),
                    ty => ty.clone(),
                };
                let bound = Local { name: name.clone(), path: Vec::new(), size: None };
                let body = self.within(vec![(bound, inner)], body);
                // The value is asked for twice: whether there is one, and what it is.
                let price = if *is_flat { NEW_LIST + 2 } else { NEW_LIST + 3 };
                plain(value.cost.saturating_mul(2).saturating_add(body.cost).saturating_add(price))
            }
            Node::Bind { name, value, body } => {
                let value = self.part(value);
                let bound = Local { name: name.clone(), path: value.path.clone(), size: value.size };
                let body = self.within(vec![(bound, value.ty.clone())], body);
                // The real thing walks over an empty list that it makes for that.
                Known { cost: value.cost.saturating_add(body.cost).saturating_add(NEW_LIST), ..body }
            }
        };
        known.ty = ty;
        known.size = known.size.or_else(|| self.size_of(part, &known));
        known
    }

    /// The size of what has not said it already.
    fn size_of(&self, part: &Expression, known: &Known) -> Option<Size> {
        if let Some(max) = self.extent.at(&known.path) {
            return Some(Size { min: 0, max });
        }
        if is_scalar(&known.ty) {
            return Some(Size::exactly(1));
        }
        let Node::Identifier(name) = &part.node else { return None };
        self.locals.iter().rev().find(|local| local.name == *name)?.size
    }

    /// A part in which more variables are known.
    fn within(&mut self, names: Vec<(Local, Type)>, part: &Expression) -> Known {
        let before = self.locals.len();
        let types = names.iter().map(|(local, ty)| (local.name.to_string(), ty.clone())).collect();
        self.locals.extend(names.into_iter().map(|(local, _)| local));
        let outer = self.checker.enter(types);
        let known = self.part(part);
        self.checker.leave(outer);
        self.locals.truncate(before);
        known
    }

    fn call(&mut self, target: Option<&Expression>, function: &str, arguments: &[Expression]) -> Known {
        let space = match target.map(|target| &target.node) {
            Some(Node::Identifier(name)) if functions::is_space(name) && !self.checker.knows(name) => {
                Some(name.clone())
            }
            _ => None,
        };
        let target = target.filter(|_| space.is_none()).map(|target| self.part(target));
        let parts: Vec<Known> = arguments.iter().map(|argument| self.part(argument)).collect();
        let numbers: Vec<Option<u64>> = arguments.iter().map(whole_number).collect();
        let item = |list: &Known| {
            let ty = match &list.ty {
                Type::List(items, _) => Type::clone(items),
                Type::Map(keys, _) => Type::clone(keys),
                _ => return None,
            };
            let path = if list.path.is_empty() { Vec::new() } else { below(&list.path, ITEMS) };
            let size = self.extent.at(&path).map_or(Size::UNKNOWN, |max| Size { min: 0, max });
            Some((ty, size))
        };
        let call = calls::Call {
            space: space.as_deref().unwrap_or_default(),
            function,
            target: target.as_ref(),
            arguments: &parts,
            numbers: &numbers,
            item: target.as_ref().and_then(item),
        };
        let priced = call.price();
        let before = target.as_ref().map_or(0, |target| target.cost).saturating_add(total(&parts));
        let mut known = Known { size: priced.size, ..plain(before.saturating_add(priced.cost)) };
        if let ("dyn", [argument]) = (function, &parts[..]) {
            known.size = argument.size;
            known.entry = argument.entry;
        }
        known
    }

    fn fold(&mut self, fold: &Fold) -> Known {
        let range = self.part(&fold.target);
        let types = fold_types(&range.ty, fold.second.is_some()).unwrap_or((Type::Dyn, Type::Dyn));
        let is_list = range.entry.map_or(matches!(range.ty, Type::List(..)), |entry| entry.is_list);
        let of = |which: fn(Entry) -> Size| range.entry.map(which);
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
        let names = || match &fold.second {
            Some(second) => vec![
                (Local { path: key.path.clone(), name: key.name.clone(), ..key }, types.0.clone()),
                (value(second), types.1.clone()),
            ],
            None if is_list => vec![(value(&fold.name), types.0.clone())],
            None => vec![(Local { path: key.path.clone(), name: key.name.clone(), ..key }, types.0.clone())],
        };
        let condition = fold.condition.as_ref().map(|condition| self.within(names(), condition).cost);
        let body = self.within(names(), &fold.body);
        // What the macro stands for: what it starts with, what is done for each item, and what is done in the end.
        let (start, each, end) = match fold.kind {
            FoldKind::All => (0, body.cost.saturating_add(3), 1),
            FoldKind::Exists => (0, body.cost.saturating_add(4), 1),
            FoldKind::ExistsOne => (0, body.cost.saturating_add(2), 2),
            FoldKind::Filter => (NEW_LIST, body.cost.saturating_add(NEW_LIST + 3), 1),
            FoldKind::Map | FoldKind::SortBy => (NEW_LIST, body.cost.saturating_add(NEW_LIST + 2), 1),
            FoldKind::TransformMap => (NEW_MAP, body.cost.saturating_add(3), 1),
            FoldKind::TransformMapEntry => (NEW_MAP, body.cost.saturating_add(2), 1),
        };
        let each = each.saturating_add(condition.unwrap_or_default());
        let count = range.size();
        let cost = range.cost.saturating_add(start).saturating_add(count.max.saturating_mul(each)).saturating_add(end);
        let made = |size: Size| Entry { is_list: true, key: Size::exactly(1), value: Size { min: 0, ..size } };
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => plain(cost),
            FoldKind::Filter | FoldKind::SortBy => {
                let item = self
                    .within(names(), &Expression { offset: 0, depth: 0, node: Node::Identifier(fold.name.clone()) });
                Known { size: Some(count), entry: Some(made(item.size())), ..plain(cost) }
            }
            FoldKind::Map => Known { size: Some(count), entry: Some(made(body.size())), ..plain(cost) },
            FoldKind::TransformMap | FoldKind::TransformMapEntry => Known { size: Some(count), ..plain(cost) },
        }
    }
}

/// A part of which nothing but its cost is known so far.
fn plain(cost: u64) -> Known {
    Known { cost, size: None, entry: None, path: Vec::new(), ty: Type::Dyn }
}

fn total(parts: &[Known]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.cost))
}

/// The size of each of these, zero if there is none.
fn common_size(parts: &[Known]) -> Size {
    parts.iter().map(Known::size).reduce(Size::union).unwrap_or(Size::exactly(0))
}

fn list(items: &[Known]) -> Known {
    let entry = Entry { is_list: true, key: Size::exactly(1), value: common_size(items) };
    let size = Some(Size::exactly(items.len() as u64));
    Known { size, entry: Some(entry), ..plain(total(items).saturating_add(NEW_LIST)) }
}

fn choice(condition: &Known, then: &Known, otherwise: &Known) -> Known {
    let entry = then.entry.zip(otherwise.entry).map(|(one, two)| one.union(two));
    let cost = condition.cost.saturating_add(then.cost.max(otherwise.cost));
    Known { size: Some(then.size().union(otherwise.size())), entry, ..plain(cost) }
}

fn binary(operator: Operator, left: &Known, right: &Known) -> Known {
    let before = left.cost.saturating_add(right.cost);
    let with = |cost: u64| plain(before.saturating_add(cost));
    let is_text = |ty: &Type| matches!(ty, Type::String | Type::Bytes);
    let is_open = |ty: &Type| matches!(ty, Type::Dyn);
    let smaller = || super::scaled(left.size().max.min(right.size().max), PER_CHARACTER);
    match operator {
        Operator::Add => {
            let (one, two) = (&left.ty, &right.ty);
            let size = left.size().plus(right.size());
            let entry = left.entry.zip(right.entry).map(|(one, two)| one.union(two));
            if matches!((one, two), (Type::List(..), _) | (_, Type::List(..))) {
                Known { size: Some(size), entry, ..with(1) }
            } else if is_text(one) || is_text(two) || (is_open(one) && is_open(two)) {
                Known { size: Some(size), entry, ..with(size.cost(PER_CHARACTER)) }
            } else {
                with(1)
            }
        }
        Operator::Equal | Operator::Unequal => match (&left.ty, &right.ty) {
            (Type::Named("ip" | "cidr" | "quantity" | "semver"), two)
                if left.ty == *two && operator == Operator::Equal =>
            {
                with(1)
            }
            _ => with(smaller()),
        },
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            match is_text(&left.ty) || is_text(&right.ty) {
                true => with(smaller()),
                false if is_open(&left.ty) && is_open(&right.ty) => with(smaller().max(1)),
                false => with(1),
            }
        }
        Operator::In => match &right.ty {
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

fn literal_size(value: &Value) -> Option<Size> {
    Some(Size::exactly(match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Bool(_) | Value::Double(_) | Value::Int(_) | Value::Uint(_) | Value::Null => 1,
        _ => return None,
    }))
}

fn whole_number(part: &Expression) -> Option<u64> {
    match &part.node {
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
