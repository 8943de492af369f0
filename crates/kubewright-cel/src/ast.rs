//! The abstract syntax tree.

use kubewright_core::Str;

use crate::value::Value;

/// A node of the tree with its position.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    /// Position in the source, in characters.
    pub(crate) offset: usize,
    /// Height of the tree.
    pub(crate) depth: usize,
    pub(crate) node: Node,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub(crate) enum Node {
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
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
    /// `a && b && c`.
    And(Vec<Expression>),
    /// `a || b || c`.
    Or(Vec<Expression>),
    /// `condition ? then : otherwise`.
    Conditional {
        condition: Box<Expression>,
        then: Box<Expression>,
        otherwise: Box<Expression>,
    },
    /// Items. The flag marks `?item`, which is omitted if the optional is empty.
    List(Vec<(Expression, bool)>),
    /// Keys, values and whether the entry is optional.
    Map(Vec<(Expression, Expression, bool)>),
    /// `Object.spec{field: value}`: constructs an object of a named type.
    Struct {
        name: Str,
        fields: Vec<(Str, Expression, bool)>,
    },
    Comprehension(Box<Comprehension>),
    /// `target.optMap(name, body)`, or `optFlatMap`, whose body returns an optional.
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

/// A macro that iterates over a list or a map.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) kind: ComprehensionKind,
    pub(crate) target: Expression,
    pub(crate) name: Str,
    /// The variable of the value, in the two-variable form.
    pub(crate) second: Option<Str>,
    /// The filter of `map` and `transform…` with one more argument.
    pub(crate) condition: Option<Expression>,
    pub(crate) body: Expression,
}

/// The macros that iterate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComprehensionKind {
    /// `all`.
    All,
    /// `exists`.
    Exists,
    /// `exists_one`.
    ExistsOne,
    /// `filter`.
    Filter,
    /// `map`, and `transformList`.
    Map,
    /// `sortBy`: the body computes the sort key.
    SortBy,
    /// `transformMap`.
    TransformMap,
    /// `transformMapEntry`.
    TransformMapEntry,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
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

impl BinaryOperator {
    /// The operator's function name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BinaryOperator::Add => "_+_",
            BinaryOperator::Subtract => "_-_",
            BinaryOperator::Multiply => "_*_",
            BinaryOperator::Divide => "_/_",
            BinaryOperator::Remainder => "_%_",
            BinaryOperator::Equal => "_==_",
            BinaryOperator::Unequal => "_!=_",
            BinaryOperator::Less => "_<_",
            BinaryOperator::LessOrEqual => "_<=_",
            BinaryOperator::Greater => "_>_",
            BinaryOperator::GreaterOrEqual => "_>=_",
            BinaryOperator::In => "@in",
        }
    }
}

impl Expression {
    /// The direct subexpressions.
    pub(crate) fn children(&self) -> Vec<&Expression> {
        match &self.node {
            Node::Literal(_) | Node::Identifier(_) => Vec::new(),
            Node::Select { operand, .. } | Node::Has { operand, .. } => vec![operand],
            Node::Index { operand, index, .. } => vec![operand, index],
            Node::Call { target, arguments, .. } => target.iter().map(|target| &**target).chain(arguments).collect(),
            Node::Not(operand) | Node::Negate(operand) => vec![operand],
            Node::Binary(_, left, right) => vec![left, right],
            Node::And(operands) | Node::Or(operands) => operands.iter().collect(),
            Node::Conditional { condition, then, otherwise } => vec![condition, then, otherwise],
            Node::List(items) => items.iter().map(|(item, _)| item).collect(),
            Node::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Node::Struct { fields, .. } => fields.iter().map(|(_, value, _)| value).collect(),
            Node::Comprehension(fold) => [&fold.target, &fold.body].into_iter().chain(&fold.condition).collect(),
            Node::OptionalMap { target, body, .. } => vec![target, body],
            Node::Bind { value, body, .. } => vec![value, body],
        }
    }

    /// The type that the expression denotes, if it is a qualified type name. There are only two.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
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

    /// The dotted name that the expression is, such as `Object.spec`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.node {
            Node::Identifier(name) => Some(name.to_string()),
            Node::Select { operand, field, is_optional: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }

    /// Whether the tree contains an identifier.
    pub(crate) fn references(&self, variable: &str) -> bool {
        matches!(&self.node, Node::Identifier(name) if name == variable)
            || self.children().iter().any(|child| child.references(variable))
    }
}
