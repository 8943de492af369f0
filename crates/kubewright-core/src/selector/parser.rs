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
    let mut parser = SelectorParser { tokens: scan(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            SelectorToken::Word(_) | SelectorToken::Not => {
                let requirement = parser.requirement();
                let complain = |error: String| SelectorError::new(format!("unable to parse requirement: {error}"));
                requirements.push(requirement.map_err(complain)?);
            }
            SelectorToken::End => return Ok(requirements),
            other => return Err(SelectorError::new(found(other, "!, identifier, or 'end of string'"))),
        }
        match parser.next() {
            SelectorToken::End => return Ok(requirements),
            SelectorToken::Comma => match parser.peek() {
                SelectorToken::Word(_) | SelectorToken::Not => {}
                other => return Err(SelectorError::new(found(other, "identifier after ','"))),
            },
            other => return Err(SelectorError::new(found(other, "',' or 'end of string'"))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorToken<'a> {
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

impl<'a> SelectorToken<'a> {
    #[inline]
    fn text(self) -> &'a str {
        match self {
            SelectorToken::End => "",
            SelectorToken::Open => "(",
            SelectorToken::Close => ")",
            SelectorToken::Comma => ",",
            SelectorToken::Not => "!",
            SelectorToken::Equals => "=",
            SelectorToken::DoubleEquals => "==",
            SelectorToken::NotEquals => "!=",
            SelectorToken::Greater => ">",
            SelectorToken::Less => "<",
            SelectorToken::Word(word) => word,
        }
    }
}

#[inline]
fn found(token: SelectorToken<'_>, expected: &str) -> String {
    format!("found '{}', expected: {expected}", token.text())
}

/// Splits the text into tokens; the last one is the end.
#[inline]
fn scan(text: &str) -> Vec<SelectorToken<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let token = match first {
            '(' => SelectorToken::Open,
            ')' => SelectorToken::Close,
            ',' => SelectorToken::Comma,
            '>' => SelectorToken::Greater,
            '<' => SelectorToken::Less,
            '=' if rest.starts_with("==") => SelectorToken::DoubleEquals,
            '=' => SelectorToken::Equals,
            '!' if rest.starts_with("!=") => SelectorToken::NotEquals,
            '!' => SelectorToken::Not,
            _ => SelectorToken::Word(&rest[..rest.find(|c| is_space(c) || is_symbol(c)).unwrap_or(rest.len())]),
        };
        tokens.push(token);
        rest = rest[token.text().len()..].trim_start_matches(is_space);
    }
    tokens.push(SelectorToken::End);
    tokens
}

struct SelectorParser<'a> {
    /// Invariant: exactly the last token is the end.
    tokens: Vec<SelectorToken<'a>>,
    position: usize,
}

impl<'a> SelectorParser<'a> {
    #[inline]
    fn peek(&self) -> SelectorToken<'a> {
        self.tokens.get(self.position).copied().unwrap_or(SelectorToken::End)
    }

    #[inline]
    fn next(&mut self) -> SelectorToken<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    #[inline]
    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token == SelectorToken::Not;
        if negated {
            token = self.next();
        }
        let SelectorToken::Word(key) = token else {
            return Err(found(token, "identifier"));
        };
        if let Some(error) = key_error(key) {
            // The path of a key within a text is unknown; this is the server's notation for it.
            return Err(format!("<nil>: {error}"));
        }
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), SelectorToken::End | SelectorToken::Comma) {
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
            SelectorToken::Word("in") => Operator::In,
            SelectorToken::Word("notin") => Operator::NotIn,
            SelectorToken::Equals => Operator::Equals,
            SelectorToken::DoubleEquals => Operator::DoubleEquals,
            SelectorToken::NotEquals => Operator::NotEquals,
            SelectorToken::Greater => Operator::GreaterThan,
            SelectorToken::Less => Operator::LessThan,
            other => return Err(found(other, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    #[inline]
    fn exact_value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            SelectorToken::End | SelectorToken::Comma => Ok(""),
            SelectorToken::Word(value) => {
                self.next();
                Ok(value)
            }
            other => Err(found(other, "identifier")),
        }
    }

    #[inline]
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            SelectorToken::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        match self.peek() {
            SelectorToken::Word(_) | SelectorToken::Comma => {}
            SelectorToken::Close => {
                self.next();
                return Ok(vec![""]);
            }
            other => return Err(found(other, "',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                SelectorToken::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        SelectorToken::Comma => {}
                        SelectorToken::Close => break,
                        other => return Err(found(other, "',' or ')'")),
                    }
                }
                SelectorToken::Comma => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek() {
                        SelectorToken::Close => {
                            values.push("");
                            break;
                        }
                        SelectorToken::Comma => {
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
