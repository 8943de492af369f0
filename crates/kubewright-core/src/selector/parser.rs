//! The grammar of label selectors, compatible with Go's `labels.Parse` and its error messages.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] KEY
//!             | KEY ( "in" | "notin" ) "(" values ")"
//!             | KEY ( "=" | "==" | "!=" | ">" | "<" ) [ VALUE ]
//! values      = [ VALUE ] { "," [ VALUE ] }
//! ```
//! A missing value is the empty value; `in` and `notin` are keywords only after a key. White space
//! separates words and is otherwise ignored.

use super::requirement::key_error;
use super::{Operator, Requirement, SelectorError};

/// Parses a selector's requirements in textual order.
#[inline]
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: scan(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Not => {
                let requirement = parser.requirement();
                let complain = |error: String| SelectorError::new(format!("unable to parse requirement: {error}"));
                requirements.push(requirement.map_err(complain)?);
            }
            Token::End => return Ok(requirements),
            other => return Err(SelectorError::new(found(other, "!, identifier, or 'end of string'"))),
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Not => {}
                other => return Err(SelectorError::new(found(other, "identifier after ','"))),
            },
            other => return Err(SelectorError::new(found(other, "',' or 'end of string'"))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    /// A key, a value, or one of the operators `in` and `notin`.
    Word(&'a str),
}

impl<'a> Token<'a> {
    #[inline]
    fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Word(word) => word,
        }
    }
}

#[inline]
fn found(token: Token<'_>, expected: &str) -> String {
    format!("found '{}', expected: {expected}", token.text())
}

/// Splits the text into tokens; the last one is the end.
#[inline]
fn scan(text: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let token = match first {
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '>' => Token::Greater,
            '<' => Token::Less,
            '=' if rest.starts_with("==") => Token::DoubleEquals,
            '=' => Token::Equals,
            '!' if rest.starts_with("!=") => Token::NotEquals,
            '!' => Token::Not,
            _ => Token::Word(&rest[..rest.find(|c| is_space(c) || is_symbol(c)).unwrap_or(rest.len())]),
        };
        tokens.push(token);
        rest = rest[token.text().len()..].trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser<'a> {
    /// Invariant: exactly the last token is the end.
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    #[inline]
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    #[inline]
    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    #[inline]
    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token == Token::Not;
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(found(token, "identifier"));
        };
        if let Some(error) = key_error(key) {
            // The path of a key within a text is unknown; this is the server's notation for it.
            return Err(format!("<nil>: {error}"));
        }
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), Token::End | Token::Comma) {
            (Operator::Exists, Vec::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => vec![self.exact_value()?],
            };
            (operator, values)
        };
        Requirement::new(key, operator, values).map_err(|error| error.to_string())
    }

    #[inline]
    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            other => return Err(found(other, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    #[inline]
    fn exact_value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Token::End | Token::Comma => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            other => Err(found(other, "identifier")),
        }
    }

    #[inline]
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        match self.peek() {
            Token::Word(_) | Token::Comma => {}
            Token::Close => {
                self.next();
                return Ok(vec![""]);
            }
            other => return Err(found(other, "',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => break,
                        other => return Err(found(other, "',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek() {
                        Token::Close => {
                            values.push("");
                            break;
                        }
                        Token::Comma => {
                            self.next();
                            values.push("");
                        }
                        _ => {}
                    }
                }
                other => return Err(found(other, "',', or identifier")),
            }
        }
        self.next();
        Ok(values)
    }
}
