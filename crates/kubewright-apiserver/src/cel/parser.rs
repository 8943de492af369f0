//! Reads an expression: operators by their precedence, calls and macros behind their targets.

use kubewright_core::Str;

use super::error::CompileError;
use super::lexer::{Token, tokens};
use super::syntax::{Expression, Fold, FoldKind, Node, Operator};
use super::value::Value;
use super::words::is_reserved;

/// How deep a tree may be, so that nobody runs out of stack on it.
const MAX_DEPTH: usize = 96;
/// How long a text may be.
const MAX_LENGTH: usize = 1 << 16;

/// Reads a whole text.
pub(super) fn parse(text: &str, has_bindings: bool) -> Result<Expression, CompileError> {
    if text.len() > MAX_LENGTH {
        return Err(CompileError::at("", 0, "expression code point size exceeds limit"));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0, has_bindings };
    let expression = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    /// Whether `cel.bind` gives names to values.
    has_bindings: bool,
}

type Parsed = Result<Expression, CompileError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn offset(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Takes a symbol, if it is next.
    fn take(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CompileError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> CompileError {
        self.error(self.offset(), format!("Syntax error: mismatched input {}", self.shown()))
    }

    /// Something else stands where a value should.
    fn expected_operand(&self) -> CompileError {
        const OPERANDS: &str = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                                STRING, BYTES, IDENTIFIER";
        let found = self.shown();
        self.error(self.offset(), format!("Syntax error: mismatched input {found} expecting {{{OPERANDS}}}"))
    }

    /// What comes next, as messages show it.
    fn shown(&self) -> String {
        match self.peek() {
            Token::End => "'<EOF>'".to_owned(),
            Token::Symbol(symbol) => format!("'{symbol}'"),
            Token::Identifier(name) => format!("'{name}'"),
            Token::String(text) => format!("'{text}'"),
            _ => "a literal".to_owned(),
        }
    }

    fn error(&self, offset: usize, message: impl std::fmt::Display) -> CompileError {
        CompileError::at(self.text, offset, message)
    }

    /// A part of the tree, unless it is too deep.
    fn make(&self, offset: usize, node: Node) -> Parsed {
        let mut expression = Expression { offset, depth: 0, node };
        expression.depth = 1 + expression.parts().iter().map(|part| part.depth).max().unwrap_or_default();
        if expression.depth > MAX_DEPTH {
            return Err(self.too_deep(offset));
        }
        Ok(expression)
    }

    fn too_deep(&self, offset: usize) -> CompileError {
        self.error(offset, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep(self.offset()));
        }
        let condition = self.any()?;
        let offset = self.offset();
        let expression = if self.take("?") {
            let then = self.any()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
            self.make(offset, Node::Choice { condition, then, otherwise })
        } else {
            Ok(condition)
        };
        self.depth -= 1;
        expression
    }

    fn any(&mut self) -> Parsed {
        let first = self.all()?;
        let offset = self.offset();
        let mut parts = vec![first];
        while self.take("||") {
            parts.push(self.all()?);
        }
        self.chain(offset, parts, Node::Any)
    }

    fn all(&mut self) -> Parsed {
        let first = self.relation()?;
        let offset = self.offset();
        let mut parts = vec![first];
        while self.take("&&") {
            parts.push(self.relation()?);
        }
        self.chain(offset, parts, Node::All)
    }

    fn chain(&self, offset: usize, mut parts: Vec<Expression>, node: fn(Vec<Expression>) -> Node) -> Parsed {
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => self.make(offset, node(parts)),
        }
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.operation(0)?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("==") => Operator::Equal,
                Token::Symbol("!=") => Operator::Unequal,
                Token::Symbol("<") => Operator::Less,
                Token::Symbol("<=") => Operator::LessOrEqual,
                Token::Symbol(">") => Operator::Greater,
                Token::Symbol(">=") => Operator::GreaterOrEqual,
                Token::Identifier(name) if name == "in" => Operator::In,
                _ => return Ok(left),
            };
            let offset = self.offset();
            self.at += 1;
            let right = self.operation(0)?;
            left = self.make(offset, Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    /// Sums at level 0, products at level 1.
    fn operation(&mut self, level: u8) -> Parsed {
        let mut left = if level == 0 { self.operation(1)? } else { self.unary()? };
        loop {
            let operator = match (level, self.peek()) {
                (0, Token::Symbol("+")) => Operator::Add,
                (0, Token::Symbol("-")) => Operator::Subtract,
                (1, Token::Symbol("*")) => Operator::Multiply,
                (1, Token::Symbol("/")) => Operator::Divide,
                (1, Token::Symbol("%")) => Operator::Remainder,
                _ => return Ok(left),
            };
            let offset = self.offset();
            self.at += 1;
            let right = if level == 0 { self.operation(1)? } else { self.unary()? };
            left = self.make(offset, Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let (offset, begin) = (self.offset(), self.at);
        for symbol in ["!", "-"] {
            while self.take(symbol) {}
            let count = self.at - begin;
            if count == 0 {
                continue;
            }
            if symbol == "-" && *self.peek() == Token::IntMinimum {
                self.at += 1;
                let minimum = self.make(offset, Node::Literal(Value::Int(i64::MIN)))?;
                return self.members(minimum);
            }
            let operand = self.member()?;
            // Two of them cancel out.
            if count.is_multiple_of(2) {
                return Ok(operand);
            }
            return match (symbol, &operand.node) {
                ("-", Node::Literal(Value::Int(number))) if *number != i64::MIN => {
                    self.make(offset, Node::Literal(Value::Int(-number)))
                }
                ("-", Node::Literal(Value::Double(number))) => self.make(offset, Node::Literal(Value::Double(-number))),
                ("-", _) => self.make(offset, Node::Negate(Box::new(operand))),
                _ => self.make(offset, Node::Not(Box::new(operand))),
            };
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Fields, indices and calls behind a value.
    fn members(&mut self, mut target: Expression) -> Parsed {
        loop {
            let offset = self.offset();
            if self.take(".?") {
                let field = self.name()?;
                target = self.make(offset, Node::Select { operand: Box::new(target), field, is_optional: true })?;
            } else if self.take(".") {
                let field = self.name()?;
                let call = self.offset();
                target = if self.take("(") {
                    let arguments = self.arguments(")")?;
                    self.method(call, target, field, arguments)?
                } else {
                    self.make(offset, Node::Select { operand: Box::new(target), field, is_optional: false })?
                };
            } else if let (Token::Symbol("{" | "{?"), Some(name)) = (self.peek(), struct_name(&target)) {
                target = self.fields(target.offset, name)?;
            } else if self.take("[?") {
                target = self.index(offset, target, true)?;
            } else if self.take("[") {
                target = self.index(offset, target, false)?;
            } else {
                return Ok(target);
            }
        }
    }

    fn index(&mut self, offset: usize, operand: Expression, is_optional: bool) -> Parsed {
        let index = Box::new(self.expression()?);
        self.expect("]")?;
        self.make(offset, Node::Index { operand: Box::new(operand), index, is_optional })
    }

    fn name(&mut self) -> Result<Str, CompileError> {
        match self.peek().clone() {
            Token::Identifier(name) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expression>, CompileError> {
        let mut arguments = Vec::new();
        while !self.take(close) {
            arguments.push(self.expression()?);
            if !self.take(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed {
        let offset = self.offset();
        let literal = match self.peek().clone() {
            Token::Int(number) => Value::Int(number),
            Token::Uint(number) => Value::Uint(number),
            Token::Double(number) => Value::Double(number),
            Token::String(text) => Value::String(text),
            Token::Bytes(bytes) => Value::Bytes(bytes.into()),
            Token::Identifier(name) => {
                self.at += 1;
                return self.identifier(offset, name);
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[" | "[?") => return self.list(offset),
            Token::Symbol("{" | "{?") => return self.map(offset),
            // A leading dot means the name of the outermost scope, which is the only one here.
            Token::Symbol(".") => {
                self.at += 1;
                let name = self.name()?;
                return self.identifier(offset, name);
            }
            _ => return Err(self.expected_operand()),
        };
        self.at += 1;
        self.make(offset, Node::Literal(literal))
    }

    fn identifier(&mut self, offset: usize, name: Str) -> Parsed {
        match name.as_str() {
            "true" => return self.make(offset, Node::Literal(Value::Bool(true))),
            "false" => return self.make(offset, Node::Literal(Value::Bool(false))),
            "null" => return self.make(offset, Node::Literal(Value::Null)),
            "in" => {
                self.at -= 1;
                return Err(self.unexpected());
            }
            word if is_reserved(word) => {
                return Err(self.error(offset, format!("Syntax error: reserved identifier: {word}")));
            }
            _ => {}
        }
        let call = self.offset();
        if !self.take("(") {
            return self.make(offset, Node::Identifier(name));
        }
        let mut arguments = self.arguments(")")?;
        if name == "has" {
            let place = arguments.first().map_or(call, |argument| argument.offset);
            return match (arguments.len(), arguments.pop().map(|argument| argument.node)) {
                (1, Some(Node::Select { operand, field, is_optional: false })) => {
                    self.make(call, Node::Has { operand, field })
                }
                _ => Err(self.error(place, "invalid argument to has() macro")),
            };
        }
        self.make(call, Node::Call { target: None, function: name, arguments })
    }

    /// Passes over the comma of `[,]`, which the grammar lets stand alone.
    fn lone_comma(&mut self, close: &str) {
        let begin = self.at;
        if self.take(",") && !matches!(self.peek(), Token::Symbol(symbol) if *symbol == close) {
            self.at = begin;
        }
    }

    fn list(&mut self, offset: usize) -> Parsed {
        // `[?` is one token here, but a list whose first item is optional looks the same.
        let mut is_optional = matches!(self.next(), Token::Symbol("[?"));
        let mut items = Vec::new();
        self.lone_comma("]");
        while !self.take("]") {
            is_optional |= self.take("?");
            items.push((self.expression()?, is_optional));
            is_optional = false;
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        self.make(offset, Node::List(items))
    }

    fn map(&mut self, offset: usize) -> Parsed {
        let mut is_optional = matches!(self.next(), Token::Symbol("{?"));
        let mut entries = Vec::new();
        self.lone_comma("}");
        while !self.take("}") {
            is_optional |= self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, is_optional));
            is_optional = false;
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        self.make(offset, Node::Map(entries))
    }

    /// The fields of a new object.
    fn fields(&mut self, offset: usize, name: Str) -> Parsed {
        let mut is_optional = matches!(self.next(), Token::Symbol("{?"));
        let mut fields = Vec::new();
        while !self.take("}") {
            is_optional |= self.take("?");
            let field = self.name()?;
            self.expect(":")?;
            fields.push((field, self.expression()?, is_optional));
            is_optional = false;
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        self.make(offset, Node::Struct { name, fields })
    }

    /// A call behind its target, which may be a macro.
    fn method(&self, offset: usize, target: Expression, function: Str, mut arguments: Vec<Expression>) -> Parsed {
        let count = arguments.len();
        let fold = match (&*function, count) {
            ("all", 2 | 3) => Some((FoldKind::All, count == 3)),
            ("exists", 2 | 3) => Some((FoldKind::Exists, count == 3)),
            ("exists_one" | "existsOne", 2 | 3) => Some((FoldKind::ExistsOne, count == 3)),
            ("filter", 2) => Some((FoldKind::Filter, false)),
            ("map", 2 | 3) => Some((FoldKind::Map, false)),
            ("sortBy", 2) => Some((FoldKind::SortBy, false)),
            ("transformList", 3 | 4) => Some((FoldKind::Map, true)),
            ("transformMap", 3 | 4) => Some((FoldKind::TransformMap, true)),
            ("transformMapEntry", 3 | 4) => Some((FoldKind::TransformMapEntry, true)),
            _ => None,
        };
        if let Some((kind, has_second)) = fold {
            let name = self.variable(&arguments[0])?;
            let second = if has_second { Some(self.variable(&arguments[1])?) } else { None };
            let mut rest = arguments.split_off(1 + usize::from(has_second));
            let body = rest.pop().ok_or_else(|| self.unexpected())?;
            let fold = Fold { kind, target, name, second, condition: rest.pop(), body };
            return self.make(offset, Node::Fold(Box::new(fold)));
        }
        if let ("optMap" | "optFlatMap", 2) = (&*function, count) {
            let body = Box::new(arguments.remove(1));
            let (name, is_flat) = (self.variable(&arguments[0])?, function == "optFlatMap");
            return self.make(offset, Node::OptionalMap { target: Box::new(target), name, body, is_flat });
        }
        if let (true, "bind", Node::Identifier(library)) = (self.has_bindings && count == 3, &*function, &target.node)
            && library == "cel"
        {
            let name = self.variable(&arguments[0])?;
            let (body, value) = (Box::new(arguments.remove(2)), Box::new(arguments.remove(1)));
            return self.make(offset, Node::Bind { name, value, body });
        }
        self.make(offset, Node::Call { target: Some(Box::new(target)), function, arguments })
    }

    fn variable(&self, argument: &Expression) -> Result<Str, CompileError> {
        match &argument.node {
            Node::Identifier(name) => Ok(name.clone()),
            _ => Err(self.error(argument.offset, "argument must be a simple name")),
        }
    }
}

/// The name of a type of which new objects can be made, if this is one.
fn struct_name(expression: &Expression) -> Option<Str> {
    let name = expression.qualified_name()?;
    (name == "JSONPatch" || name == "Object" || name.starts_with("Object.")).then(|| name.into())
}
