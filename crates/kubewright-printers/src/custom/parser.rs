//! Parses JSON paths.

use std::{error::Error, fmt};

use kubewright_core::Value;

use super::json_path::{Operand, PathFilter, PathOperator, PathStep};

/// Maximum nesting depth of filters.
const MAX_DEPTH: usize = 8;

/// An invalid JSON path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPathError {
    path: String,
    reason: &'static str,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unrecognized column definition {:?}: {}", self.path, self.reason)
    }
}

impl Error for JsonPathError {}

/// Parses a whole path.
pub(super) fn parse(text: &str) -> Result<Vec<PathStep>, JsonPathError> {
    steps(text.trim(), MAX_DEPTH).map_err(|reason| JsonPathError { path: text.to_owned(), reason })
}

fn steps(text: &str, depth: usize) -> Result<Vec<PathStep>, &'static str> {
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut steps = Vec::new();
    if rest.is_empty() {
        return if text.is_empty() { Err("the path is empty") } else { Ok(steps) };
    }
    // The first field may omit its dot.
    if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        rest = field(rest, &mut steps)?;
    }
    while !rest.is_empty() {
        rest = if let Some(after) = rest.strip_prefix("..") {
            steps.push(PathStep::Descendants);
            if after.starts_with('[') { after } else { field(after, &mut steps)? }
        } else if let Some(after) = rest.strip_prefix(".*") {
            steps.push(PathStep::All);
            after
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.starts_with('[') { after } else { field(after, &mut steps)? }
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = end_of_bracket(after).ok_or("a bracket is not closed")?;
            steps.extend(bracket(after[..end].trim(), depth)?);
            &after[end + 1..]
        } else {
            return Err("expected a dot or a bracket");
        };
    }
    Ok(steps)
}

/// Parses a field name. A backslash escapes the next character.
fn field<'t>(text: &'t str, steps: &mut Vec<PathStep>) -> Result<&'t str, &'static str> {
    if let Some(rest) = text.strip_prefix('*') {
        steps.push(PathStep::All);
        return Ok(rest);
    }
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    if name.is_empty() {
        return Err("a name is missing");
    }
    steps.push(PathStep::Field(name));
    Ok(&text[end..])
}

/// The index of the bracket that closes the one open at the start of the text.
fn end_of_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut open = 0;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => open += 1,
            (None, ']') if open == 0 => return Some(at),
            (None, ']') => open -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str, depth: usize) -> Result<Vec<PathStep>, &'static str> {
    if text == "*" {
        return Ok(vec![PathStep::All]);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let depth = depth.checked_sub(1).ok_or("filters are nested too deep")?;
        return Ok(vec![PathStep::Filter(filter(condition.trim(), depth)?)]);
    }
    let parts = split_outside_quotes(text, ',');
    if parts.len() > 1 {
        let paths = parts.into_iter().map(|part| bracket(part.trim(), depth));
        return Ok(vec![PathStep::Union(paths.collect::<Result<_, _>>()?)]);
    }
    // Quoted text is a path, too: unescaped dots separate fields.
    if let Some(path) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        let depth = depth.checked_sub(1).ok_or("quotes are nested too deep")?;
        return steps(&format!(".{path}"), depth);
    }
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| "an index is not a number"),
    };
    let numbers: Vec<&str> = text.split(':').collect();
    let step = match numbers[..] {
        [index] => number(index)?.map(PathStep::Item).ok_or("an index is missing")?,
        [from, to] => PathStep::Slice { from: number(from)?, to: number(to)?, step: 1 },
        [from, to, step] => {
            let step = number(step)?.unwrap_or(1);
            let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or("a step has to be above 0")?;
            PathStep::Slice { from: number(from)?, to: number(to)?, step }
        }
        _ => return Err("a slice has at most three parts"),
    };
    Ok(vec![step])
}

fn filter(text: &str, depth: usize) -> Result<PathFilter, &'static str> {
    let is_operator = |c: char| matches!(c, '=' | '!' | '<' | '>');
    let Some(start) = find_outside_quotes(text, is_operator) else {
        return Ok(PathFilter { left: operand(text, depth)?, comparison: None });
    };
    let end = text[start..].find(|c| !is_operator(c)).map_or(text.len(), |length| start + length);
    let operator = match &text[start..end] {
        "==" => PathOperator::Equal,
        "!=" => PathOperator::NotEqual,
        "<" => PathOperator::Less,
        "<=" => PathOperator::LessOrEqual,
        ">" => PathOperator::Greater,
        ">=" => PathOperator::GreaterOrEqual,
        _ => return Err("an operator is not known"),
    };
    let right = operand(text[end..].trim(), depth)?;
    Ok(PathFilter { left: operand(text[..start].trim(), depth)?, comparison: Some((operator, right)) })
}

fn operand(text: &str, depth: usize) -> Result<Operand, &'static str> {
    let literal = match (quoted(text), text) {
        (Some(text), _) => Some(text.into()),
        (None, "true") => Some(true.into()),
        (None, "false") => Some(false.into()),
        (None, text) => {
            let whole = text.parse::<i64>().ok().map(Value::from);
            whole.or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from))
        }
    };
    match literal {
        Some(value) => Ok(Operand::Literal(value)),
        None if text.starts_with('~') => Err("an operator is not known"),
        None => steps(text, depth).map(Operand::Path),
    }
}

fn quoted(text: &str) -> Option<&str> {
    let unquoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    unquoted('"').or_else(|| unquoted('\''))
}

fn find_outside_quotes(text: &str, wanted: impl Fn(char) -> bool) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if wanted(c) => return Some(at),
            _ => {}
        }
    }
    None
}

fn split_outside_quotes(mut text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    while let Some(at) = find_outside_quotes(text, |c| c == separator) {
        parts.push(&text[..at]);
        text = &text[at + separator.len_utf8()..];
    }
    parts.push(text);
    parts
}
