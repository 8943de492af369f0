//! Expands words: variables, outputs of commands, arithmetic.

use super::syntax::{Part, Word, is_name_character};
use super::{Buffer, Interrupt, Output, Shell, Streams};

/// Maximum number of words and bytes of an expansion.
const WORDS_MAX: usize = 100_000;
const BYTES_MAX: usize = 1 << 20;

impl Shell {
    /// A word without splitting, as in assignments.
    pub(super) async fn one_word(&mut self, word: &Word, streams: &Streams) -> Result<String, Interrupt> {
        let mut text = String::new();
        for part in word {
            text.push_str(&self.part(part, streams).await?);
            text.truncate(text.floor_char_boundary_at(BYTES_MAX));
        }
        Ok(text)
    }

    /// Words, of which unquoted expansions are split at white space.
    pub(super) async fn words(&mut self, words: &[Word], streams: &Streams) -> Result<Vec<String>, Interrupt> {
        let mut fields = Vec::new();
        for word in words {
            // The field in progress; `None` if there is none yet.
            let mut field: Option<String> = None;
            for part in word {
                let text = self.part(part, streams).await?;
                let is_split = match part {
                    Part::Variable { is_quoted, .. } | Part::Commands(_, is_quoted) => !is_quoted,
                    _ => false,
                };
                if !is_split {
                    field.get_or_insert_default().push_str(&text);
                    continue;
                }
                if text.starts_with(|c: char| c.is_ascii_whitespace()) {
                    fields.extend(field.take());
                }
                for (index, piece) in text.split_ascii_whitespace().enumerate() {
                    if index > 0 {
                        fields.extend(field.take());
                    }
                    field.get_or_insert_default().push_str(piece);
                    if fields.len() > WORDS_MAX {
                        return Err(Interrupt::Exit(2));
                    }
                }
                if text.ends_with(|c: char| c.is_ascii_whitespace()) {
                    fields.extend(field.take());
                }
            }
            fields.extend(field);
        }
        Ok(fields)
    }

    async fn part(&mut self, part: &Part, streams: &Streams) -> Result<String, Interrupt> {
        match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Empty => Ok(String::new()),
            Part::Variable { name, default, .. } => {
                let value = self.variable(name);
                match default {
                    Some(default) if value.is_empty() => Box::pin(self.one_word(default, streams)).await,
                    _ => Ok(value),
                }
            }
            Part::Commands(list, _) => {
                let buffer = Buffer::default();
                let collected = Streams { output: Output::Buffer(buffer.clone()), ..streams.clone() };
                self.subshell(async |shell| shell.list(list, &collected).await).await?;
                let output = String::from_utf8_lossy(&buffer.take()).into_owned();
                Ok(output.trim_end_matches('\n').to_owned())
            }
            Part::Arithmetic(word) => {
                let expression = Box::pin(self.one_word(word, streams)).await?;
                match arithmetic(&expression, |name| self.variable(name)) {
                    Some(number) => Ok(number.to_string()),
                    None => {
                        self.complain(streams, "sh: arithmetic syntax error").await?;
                        Err(Interrupt::Exit(2))
                    }
                }
            }
        }
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.status.to_string(),
            "$" => "1".to_owned(),
            "#" => "0".to_owned(),
            "0" => "sh".to_owned(),
            name => self.variables.get(name).cloned().unwrap_or_default(),
        }
    }
}

/// The end of the last character that ends within a length.
trait FloorCharBoundary {
    fn floor_char_boundary_at(&self, length: usize) -> usize;
}

impl FloorCharBoundary for String {
    fn floor_char_boundary_at(&self, length: usize) -> usize {
        (0..=length.min(self.len())).rev().find(|at| self.is_char_boundary(*at)).unwrap_or_default()
    }
}

/// The value of an expression of integers, variables, brackets and the operators
/// `+ - * / % == != < > <= >=`. `None` if it is malformed.
pub(super) fn arithmetic(expression: &str, variable: impl Fn(&str) -> String) -> Option<i64> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_name_character(first) {
            rest.find(|c: char| !is_name_character(c)).unwrap_or(rest.len())
        } else {
            let two = ["==", "!=", "<=", ">="].iter().any(|operator| rest.starts_with(operator));
            if two { 2 } else { first.len_utf8() }
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
        if tokens.len() > 1000 {
            return None;
        }
    }
    let mut parser = Arithmetic { tokens: &tokens, variable: &variable, depth: 0 };
    let value = parser.binary(0)?;
    parser.tokens.is_empty().then_some(value)
}

struct Arithmetic<'a, F> {
    tokens: &'a [&'a str],
    variable: &'a F,
    depth: usize,
}

/// Binary operators by precedence.
const OPERATORS: [&[&str]; 3] = [&["==", "!=", "<", ">", "<=", ">="], &["+", "-"], &["*", "/", "%"]];

impl<F: Fn(&str) -> String> Arithmetic<'_, F> {
    fn take(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let next = self.tokens.first()?;
        let found = operators.iter().copied().find(|operator| operator == next)?;
        self.tokens = &self.tokens[1..];
        Some(found)
    }

    fn binary(&mut self, level: usize) -> Option<i64> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.take(operators) {
            let right = self.binary(level + 1)?;
            left = match operator {
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                "*" => left.wrapping_mul(right),
                "/" => left.checked_div(right)?,
                "%" => left.checked_rem(right)?,
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<" => i64::from(left < right),
                ">" => i64::from(left > right),
                "<=" => i64::from(left <= right),
                _ => i64::from(left >= right),
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 100 {
            return None;
        }
        let value = if self.take(&["-"]).is_some() {
            self.unary()?.wrapping_neg()
        } else if self.take(&["("]).is_some() {
            let value = self.binary(0)?;
            self.take(&[")"])?;
            value
        } else {
            let (first, rest) = self.tokens.split_first()?;
            self.tokens = rest;
            if first.starts_with(|c: char| c.is_ascii_digit()) {
                first.parse().ok()?
            } else if first.chars().all(is_name_character) {
                let value = (self.variable)(first);
                if value.trim().is_empty() { 0 } else { value.trim().parse().ok()? }
            } else {
                return None;
            }
        };
        self.depth -= 1;
        Some(value)
    }
}
