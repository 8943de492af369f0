//! The tree of an expression.

use kubewright_core::Str;

use super::value::Value;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    /// Where it is in the text, in characters.
    pub(super) offset: usize,
    /// How deep the tree below it is.
    pub(super) depth: usize,
    pub(super) node: Node,
}

/// What a part of an expression does.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Value),
    Identifier(Str),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: Box<Expression>,
        field: Str,
        is_optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<Expression>,
        field: Str,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        operand: Box<Expression>,
        index: Box<Expression>,
        is_optional: bool,
    },
    Call {
        target: Option<Box<Expression>>,
        function: Str,
        arguments: Vec<Expression>,
    },
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// True if all are.
    All(Vec<Expression>),
    /// True if any is.
    Any(Vec<Expression>),
    Choice {
        condition: Box<Expression>,
        then: Box<Expression>,
        otherwise: Box<Expression>,
    },
    /// Items, each with whether it is left out where it is nothing.
    List(Vec<(Expression, bool)>),
    Map(Vec<(Expression, Expression, bool)>),
    /// `Object.spec{field: value}`: a new object, by the name of its type.
    Struct {
        name: Str,
        fields: Vec<(Str, Expression, bool)>,
    },
    Fold(Box<Fold>),
    /// `target.optMap(name, body)`; flat where the body gives the optional.
    OptionalMap {
        target: Box<Expression>,
        name: Str,
        body: Box<Expression>,
        is_flat: bool,
    },
    /// `cel.bind(name, value, body)`.
    Bind {
        name: Str,
        value: Box<Expression>,
        body: Box<Expression>,
    },
}

/// A macro that walks over a list or a map.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) target: Expression,
    pub(super) name: Str,
    /// The value beside the key or index, in the form with two variables.
    pub(super) second: Option<Str>,
    /// Which items take part, where `map` has three arguments.
    pub(super) condition: Option<Expression>,
    pub(super) body: Expression,
}

/// What a macro makes of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map`, and `transformList`.
    Map,
    /// `sortBy`: the items in the order of what the body makes of them.
    SortBy,
    /// `transformMap`.
    TransformMap,
    /// `transformMapEntry`.
    TransformMapEntry,
}

/// An operator between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    /// The name under which messages know it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operator::Add => "_+_",
            Operator::Subtract => "_-_",
            Operator::Multiply => "_*_",
            Operator::Divide => "_/_",
            Operator::Remainder => "_%_",
            Operator::Equal => "_==_",
            Operator::Unequal => "_!=_",
            Operator::Less => "_<_",
            Operator::LessOrEqual => "_<=_",
            Operator::Greater => "_>_",
            Operator::GreaterOrEqual => "_>=_",
            Operator::In => "@in",
        }
    }
}

impl Expression {
    /// The parts right below.
    pub(super) fn parts(&self) -> Vec<&Expression> {
        match &self.node {
            Node::Literal(_) | Node::Identifier(_) => Vec::new(),
            Node::Select { operand, .. } | Node::Has { operand, .. } => vec![operand],
            Node::Index { operand, index, .. } => vec![operand, index],
            Node::Call { target, arguments, .. } => target.iter().map(|target| &**target).chain(arguments).collect(),
            Node::Not(part) | Node::Negate(part) => vec![part],
            Node::Binary(_, left, right) => vec![left, right],
            Node::All(parts) | Node::Any(parts) => parts.iter().collect(),
            Node::Choice { condition, then, otherwise } => vec![condition, then, otherwise],
            Node::List(items) => items.iter().map(|(item, _)| item).collect(),
            Node::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Node::Struct { fields, .. } => fields.iter().map(|(_, value, _)| value).collect(),
            Node::Fold(fold) => [&fold.target, &fold.body].into_iter().chain(&fold.condition).collect(),
            Node::OptionalMap { target, body, .. } => vec![target, body],
            Node::Bind { value, body, .. } => vec![value, body],
        }
    }

    /// The type that is meant by a name with dots in it, if this is one. There are only two such types.
    pub(super) fn type_name(&self) -> Option<&'static str> {
        let Node::Select { operand, field: last, .. } = &self.node else { return None };
        let Node::Select { operand, field: middle, .. } = &operand.node else { return None };
        match (&operand.node, middle.as_str(), last.as_str()) {
            (Node::Identifier(first), "protobuf", "Timestamp") if first == "google" => {
                Some("google.protobuf.Timestamp")
            }
            (Node::Identifier(first), "protobuf", "Duration") if first == "google" => Some("google.protobuf.Duration"),
            _ => None,
        }
    }

    /// The name with dots that this is, such as `Object.spec`.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.node {
            Node::Identifier(name) => Some(name.to_string()),
            Node::Select { operand, field, is_optional: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }

    /// Whether a variable is mentioned.
    pub(super) fn mentions(&self, variable: &str) -> bool {
        matches!(&self.node, Node::Identifier(name) if name == variable)
            || self.parts().iter().any(|part| part.mentions(variable))
    }
}
