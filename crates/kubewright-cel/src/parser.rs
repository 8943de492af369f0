//! Parses expressions by recursive descent.

use kubewright_core::Str;

use crate::ast::{BinaryOperator, Expression, Node};
use crate::error::CompileError;
use crate::identifiers::is_reserved;
use crate::lexer::{Token, tokenize};
use crate::macros;
use crate::value::Value;

/// Limits the height of a tree, and so the stack depth of every recursive function over it.
const MAX_DEPTH: usize = 96;
/// The limit on the length of the source, in bytes.
const MAX_LENGTH: usize = 1 << 16;

/// Parses an expression. `has_bindings` enables `cel.bind`.
pub(crate) fn parse(text: &str, has_bindings: bool) -> Result<Expression, CompileError> {
    if text.len() > MAX_LENGTH {
        return Err(CompileError::at("", 0, "expression code point size exceeds limit"));
    }
    let mut parser = Parser { text, tokens: tokenize(text)?, at: 0, depth: 0, has_bindings };
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
    /// Whether `cel.bind` is a macro.
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

    /// Consumes a symbol, if it is next.
    fn take(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CompileError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> CompileError {
        self.error(self.offset(), format!("Syntax error: mismatched input {}", self.describe_next()))
    }

    /// An error where an operand is missing.
    fn expected_operand(&self) -> CompileError {
        const OPERANDS: &str = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                                STRING, BYTES, IDENTIFIER";
        let found = self.describe_next();
        self.error(self.offset(), format!("Syntax error: mismatched input {found} expecting {{{OPERANDS}}}"))
    }

    /// The next token, as messages show it.
    fn describe_next(&self) -> String {
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

    /// Makes a node, unless the tree gets too high.
    fn node(&self, offset: usize, node: Node) -> Parsed {
        let mut expression = Expression { offset, depth: 0, node };
        expression.depth = 1 + expression.children().iter().map(|child| child.depth).max().unwrap_or_default();
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
        let condition = self.or()?;
        let offset = self.offset();
        let expression = if self.take("?") {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
            self.node(offset, Node::Conditional { condition, then, otherwise })
        } else {
            Ok(condition)
        };
        self.depth -= 1;
        expression
    }

    fn or(&mut self) -> Parsed {
        let first = self.and()?;
        let offset = self.offset();
        let mut operands = vec![first];
        while self.take("||") {
            operands.push(self.and()?);
        }
        self.logical(offset, operands, Node::Or)
    }

    fn and(&mut self) -> Parsed {
        let first = self.relation()?;
        let offset = self.offset();
        let mut operands = vec![first];
        while self.take("&&") {
            operands.push(self.relation()?);
        }
        self.logical(offset, operands, Node::And)
    }

    fn logical(&self, offset: usize, mut operands: Vec<Expression>, node: fn(Vec<Expression>) -> Node) -> Parsed {
        if operands.len() == 1 { Ok(operands.remove(0)) } else { self.node(offset, node(operands)) }
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.arithmetic(0)?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("==") => BinaryOperator::Equal,
                Token::Symbol("!=") => BinaryOperator::Unequal,
                Token::Symbol("<") => BinaryOperator::Less,
                Token::Symbol("<=") => BinaryOperator::LessOrEqual,
                Token::Symbol(">") => BinaryOperator::Greater,
                Token::Symbol(">=") => BinaryOperator::GreaterOrEqual,
                Token::Identifier(name) if name == "in" => BinaryOperator::In,
                _ => return Ok(left),
            };
            let offset = self.offset();
            self.at += 1;
            let right = self.arithmetic(0)?;
            left = self.node(offset, Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    /// Sums at level 0, products at level 1.
    fn arithmetic(&mut self, level: u8) -> Parsed {
        let mut left = if level == 0 { self.arithmetic(1)? } else { self.unary()? };
        loop {
            let operator = match (level, self.peek()) {
                (0, Token::Symbol("+")) => BinaryOperator::Add,
                (0, Token::Symbol("-")) => BinaryOperator::Subtract,
                (1, Token::Symbol("*")) => BinaryOperator::Multiply,
                (1, Token::Symbol("/")) => BinaryOperator::Divide,
                (1, Token::Symbol("%")) => BinaryOperator::Remainder,
                _ => return Ok(left),
            };
            let offset = self.offset();
            self.at += 1;
            let right = if level == 0 { self.arithmetic(1)? } else { self.unary()? };
            left = self.node(offset, Node::Binary(operator, Box::new(left), Box::new(right)))?;
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
                let minimum = self.node(offset, Node::Literal(Value::Int(i64::MIN)))?;
                return self.members(minimum);
            }
            let operand = self.member()?;
            // An even number of signs cancels out.
            if count.is_multiple_of(2) {
                return Ok(operand);
            }
            return match (symbol, &operand.node) {
                ("-", Node::Literal(Value::Int(number))) if *number != i64::MIN => {
                    self.node(offset, Node::Literal(Value::Int(-number)))
                }
                ("-", Node::Literal(Value::Double(number))) => self.node(offset, Node::Literal(Value::Double(-number))),
                ("-", _) => self.node(offset, Node::Negate(Box::new(operand))),
                _ => self.node(offset, Node::Not(Box::new(operand))),
            };
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Selections, indices and calls after an operand.
    fn members(&mut self, mut target: Expression) -> Parsed {
        loop {
            let offset = self.offset();
            if self.take(".?") {
                let field = self.name()?;
                target = self.node(offset, Node::Select { operand: Box::new(target), field, is_optional: true })?;
            } else if self.take(".") {
                let field = self.name()?;
                let call = self.offset();
                target = if self.take("(") {
                    let arguments = self.arguments(")")?;
                    let node = macros::expand_method(target, field, arguments, self.has_bindings);
                    self.node(call, node.map_err(|(offset, message)| self.error(offset, message))?)?
                } else {
                    self.node(offset, Node::Select { operand: Box::new(target), field, is_optional: false })?
                };
            } else if let (Token::Symbol("{" | "{?"), Some(name)) = (self.peek(), struct_name(&target)) {
                target = self.object(target.offset, name)?;
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
        self.node(offset, Node::Index { operand: Box::new(operand), index, is_optional })
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
            // A leading dot selects the root namespace. There is no other one.
            Token::Symbol(".") => {
                self.at += 1;
                let name = self.name()?;
                return self.identifier(offset, name);
            }
            _ => return Err(self.expected_operand()),
        };
        self.at += 1;
        self.node(offset, Node::Literal(literal))
    }

    fn identifier(&mut self, offset: usize, name: Str) -> Parsed {
        match name.as_str() {
            "true" => return self.node(offset, Node::Literal(Value::Bool(true))),
            "false" => return self.node(offset, Node::Literal(Value::Bool(false))),
            "null" => return self.node(offset, Node::Literal(Value::Null)),
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
            return self.node(offset, Node::Identifier(name));
        }
        let arguments = self.arguments(")")?;
        if name == "has" {
            let has = macros::expand_has(call, arguments);
            return self.node(call, has.map_err(|(offset, message)| self.error(offset, message))?);
        }
        self.node(call, Node::Call { target: None, function: name, arguments })
    }

    /// Skips the comma of `[,]`: the grammar allows a trailing comma in an empty list.
    fn skip_lone_comma(&mut self, close: &str) {
        let begin = self.at;
        if self.take(",") && !matches!(self.peek(), Token::Symbol(symbol) if *symbol == close) {
            self.at = begin;
        }
    }

    fn list(&mut self, offset: usize) -> Parsed {
        // `[?` is also the token of an optional index.
        let mut is_optional = matches!(self.next(), Token::Symbol("[?"));
        let mut items = Vec::new();
        self.skip_lone_comma("]");
        while !self.take("]") {
            is_optional |= self.take("?");
            items.push((self.expression()?, is_optional));
            is_optional = false;
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        self.node(offset, Node::List(items))
    }

    fn map(&mut self, offset: usize) -> Parsed {
        let mut is_optional = matches!(self.next(), Token::Symbol("{?"));
        let mut entries = Vec::new();
        self.skip_lone_comma("}");
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
        self.node(offset, Node::Map(entries))
    }

    /// The fields of an object construction.
    fn object(&mut self, offset: usize, name: Str) -> Parsed {
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
        self.node(offset, Node::Struct { name, fields })
    }
}

/// The name of a type that can be constructed, if the expression is one.
fn struct_name(expression: &Expression) -> Option<Str> {
    let name = expression.qualified_name()?;
    (name == "JSONPatch" || name == "Object" || name.starts_with("Object.")).then(|| name.into())
}
