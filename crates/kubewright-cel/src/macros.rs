//! Macros: calls that stand for syntax of their own.

use kubewright_core::Str;

use crate::ast::{Comprehension, ComprehensionKind, Expression, Node};

/// Why a macro cannot be expanded: an offset and a message.
type MacroError = (usize, &'static str);

/// Expands `has(operand.field)`. The call itself is at `offset`.
pub(crate) fn expand_has(offset: usize, mut arguments: Vec<Expression>) -> Result<Node, MacroError> {
    let position = arguments.first().map_or(offset, |argument| argument.offset);
    match (arguments.len(), arguments.pop().map(|argument| argument.node)) {
        (1, Some(Node::Select { operand, field, is_optional: false })) => Ok(Node::Has { operand, field }),
        _ => Err((position, "invalid argument to has() macro")),
    }
}

/// Expands a method call. A call that is no macro stays one. `has_bindings` enables `cel.bind`.
pub(crate) fn expand_method(
    target: Expression,
    function: Str,
    mut arguments: Vec<Expression>,
    has_bindings: bool,
) -> Result<Node, MacroError> {
    let count = arguments.len();
    // The flag marks the form with two variables.
    let comprehension = match (&*function, count) {
        ("all", 2 | 3) => Some((ComprehensionKind::All, count == 3)),
        ("exists", 2 | 3) => Some((ComprehensionKind::Exists, count == 3)),
        ("exists_one" | "existsOne", 2 | 3) => Some((ComprehensionKind::ExistsOne, count == 3)),
        ("filter", 2) => Some((ComprehensionKind::Filter, false)),
        ("map", 2 | 3) => Some((ComprehensionKind::Map, false)),
        ("sortBy", 2) => Some((ComprehensionKind::SortBy, false)),
        ("transformList", 3 | 4) => Some((ComprehensionKind::Map, true)),
        ("transformMap", 3 | 4) => Some((ComprehensionKind::TransformMap, true)),
        ("transformMapEntry", 3 | 4) => Some((ComprehensionKind::TransformMapEntry, true)),
        _ => None,
    };
    if let Some((kind, has_second)) = comprehension {
        let name = variable(&arguments[0])?;
        let second = if has_second { Some(variable(&arguments[1])?) } else { None };
        let body = arguments.pop().expect("a comprehension has two arguments or more");
        let condition = arguments.drain(1 + usize::from(has_second)..).next();
        return Ok(Node::Comprehension(Box::new(Comprehension { kind, target, name, second, condition, body })));
    }
    if let ("optMap" | "optFlatMap", 2) = (&*function, count) {
        let body = Box::new(arguments.remove(1));
        let (name, is_flat) = (variable(&arguments[0])?, function == "optFlatMap");
        return Ok(Node::OptionalMap { target: Box::new(target), name, body, is_flat });
    }
    if let (true, "bind", Node::Identifier(library)) = (has_bindings && count == 3, &*function, &target.node)
        && library == "cel"
    {
        let name = variable(&arguments[0])?;
        let (body, value) = (Box::new(arguments.remove(2)), Box::new(arguments.remove(1)));
        return Ok(Node::Bind { name, value, body });
    }
    Ok(Node::Call { target: Some(Box::new(target)), function, arguments })
}

/// The name of a variable that a macro declares.
fn variable(argument: &Expression) -> Result<Str, MacroError> {
    match &argument.node {
        Node::Identifier(name) => Ok(name.clone()),
        _ => Err((argument.offset, "argument must be a simple name")),
    }
}
