//! The tokens of a script: operators, words, and descriptors of redirections.

use std::iter::Peekable;
use std::str::Chars;

use super::{DEPTH_MAX, Part, SyntaxError, Word, is_name_character, parse_at, plain};

/// A piece of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Word(Word),
    Operator(&'static str),
    /// A number before a redirection.
    Descriptor(u8),
}

/// Splits a script into tokens. Words contain their quotes and expansions.
pub(super) struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    depth: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    /// `depth` is the nesting of the script.
    pub(super) fn new(script: &'a str, depth: usize) -> Self {
        Lexer { chars: script.chars().peekable(), depth, tokens: Vec::new() }
    }

    /// All tokens of the script.
    pub(super) fn run(mut self) -> Result<Vec<Token>, SyntaxError> {
        while let Some(&next) = self.chars.peek() {
            match next {
                ' ' | '\t' | '\r' => drop(self.chars.next()),
                '#' => while self.chars.next_if(|next| *next != '\n').is_some() {},
                '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => self.operator()?,
                _ => {
                    let word = self.word()?;
                    let is_redirected = matches!(self.chars.peek(), Some('<' | '>'));
                    match plain(&word).map(str::as_bytes) {
                        Some([digit @ b'0'..=b'9']) if is_redirected => {
                            self.tokens.push(Token::Descriptor(digit - b'0'));
                        }
                        _ => self.tokens.push(Token::Word(word)),
                    }
                }
            }
        }
        Ok(self.tokens)
    }

    fn operator(&mut self) -> Result<(), SyntaxError> {
        let first = self.chars.next().unwrap_or_default();
        let second = self.chars.peek().copied().unwrap_or_default();
        let (text, has_two) = match (first, second) {
            ('&', '&') => ("&&", true),
            ('|', '|') => ("||", true),
            ('>', '>') => (">>", true),
            ('>', '&') => (">&", true),
            ('<', '<') => return Err(SyntaxError("here-documents are not supported".to_owned())),
            (';', ';') => return Err(SyntaxError("case is not supported".to_owned())),
            ('&', _) => return Err(SyntaxError("background jobs are not supported".to_owned())),
            ('\n' | ';', _) => (";", false),
            ('|', _) => ("|", false),
            ('<', _) => ("<", false),
            ('>', _) => (">", false),
            ('(', _) => ("(", false),
            _ => (")", false),
        };
        if has_two {
            self.chars.next();
        }
        self.tokens.push(Token::Operator(text));
        Ok(())
    }

    fn word(&mut self) -> Result<Word, SyntaxError> {
        let (mut word, mut text) = (Word::new(), String::new());
        // Quoted text is a part of its own, so that `"if"` is no keyword.
        let flush = |word: &mut Word, text: &mut String| {
            if !text.is_empty() {
                word.push(Part::Text(std::mem::take(text)));
            }
        };
        while let Some(&next) = self.chars.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.chars.next();
                    flush(&mut word, &mut text);
                    loop {
                        match self.chars.next() {
                            Some('\'') => break,
                            Some(quoted) => text.push(quoted),
                            None => return Err(SyntaxError("unterminated quoted string".to_owned())),
                        }
                    }
                    word.push(Part::Empty);
                    flush(&mut word, &mut text);
                }
                '"' => {
                    self.chars.next();
                    flush(&mut word, &mut text);
                    word.push(Part::Empty);
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    self.chars.next();
                    match self.chars.next() {
                        // A line that continues.
                        Some('\n') => {}
                        Some(escaped) => {
                            word.push(Part::Empty);
                            text.push(escaped);
                        }
                        None => text.push('\\'),
                    }
                }
                '$' | '`' => {
                    flush(&mut word, &mut text);
                    word.push(self.expansion(false)?);
                }
                _ => {
                    text.push(next);
                    self.chars.next();
                }
            }
        }
        flush(&mut word, &mut text);
        Ok(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        let mut text = String::new();
        loop {
            match self.chars.peek().copied() {
                None => return Err(SyntaxError("unterminated quoted string".to_owned())),
                Some('"') => {
                    self.chars.next();
                    break;
                }
                Some('\\') => {
                    self.chars.next();
                    match self.chars.next() {
                        Some('\n') => {}
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => text.push(escaped),
                        Some(other) => text.extend(['\\', other]),
                        None => text.push('\\'),
                    }
                }
                Some('$' | '`') => {
                    if !text.is_empty() {
                        word.push(Part::Text(std::mem::take(&mut text)));
                    }
                    word.push(self.expansion(true)?);
                }
                Some(next) => {
                    text.push(next);
                    self.chars.next();
                }
            }
        }
        if !text.is_empty() {
            word.push(Part::Text(text));
        }
        Ok(())
    }

    /// An expansion, from its `$` or backtick.
    fn expansion(&mut self, is_quoted: bool) -> Result<Part, SyntaxError> {
        if self.depth >= DEPTH_MAX {
            return Err(SyntaxError("substitutions are nested too deeply".to_owned()));
        }
        if self.chars.next() == Some('`') {
            let script = self.until_backtick()?;
            return Ok(Part::Commands(parse_at(&script, self.depth + 1)?, is_quoted));
        }
        match self.chars.peek().copied() {
            Some('(') => {
                self.chars.next();
                if self.chars.next_if_eq(&'(').is_some() {
                    let expression = self.enclosed('(', ')')?;
                    return match self.chars.next() {
                        Some(')') => Ok(Part::Arithmetic(self.word_of(&expression)?)),
                        _ => Err(SyntaxError("unterminated arithmetic expression".to_owned())),
                    };
                }
                let script = self.enclosed('(', ')')?;
                Ok(Part::Commands(parse_at(&script, self.depth + 1)?, is_quoted))
            }
            Some('{') => {
                self.chars.next();
                let inner = self.enclosed('{', '}')?;
                let end = inner.find(|c: char| !is_name_character(c)).unwrap_or(inner.len());
                let (name, rest) = inner.split_at(end);
                let default = match rest.strip_prefix(":-").or_else(|| rest.strip_prefix('-')) {
                    Some(default) => Some(self.word_of(default)?),
                    None if rest.is_empty() && !name.is_empty() => None,
                    None => return Err(SyntaxError(format!("${{{inner}}} is not supported"))),
                };
                Ok(Part::Variable { name: name.to_owned(), default, is_quoted })
            }
            Some(special @ ('?' | '#' | '$' | '@' | '*' | '!' | '0'..='9')) => {
                self.chars.next();
                Ok(Part::Variable { name: special.to_string(), default: None, is_quoted })
            }
            Some(first) if is_name_character(first) => {
                let mut name = String::new();
                while let Some(next) = self.chars.next_if(|next| is_name_character(*next)) {
                    name.push(next);
                }
                Ok(Part::Variable { name, default: None, is_quoted })
            }
            _ => Ok(Part::Text("$".to_owned())),
        }
    }

    /// A word of text within an expansion.
    fn word_of(&self, text: &str) -> Result<Word, SyntaxError> {
        let mut inner = Lexer { chars: text.chars().peekable(), depth: self.depth + 1, tokens: Vec::new() };
        let mut word = Word::new();
        while let Some(next) = inner.chars.peek().copied() {
            match next {
                '$' | '`' => word.push(inner.expansion(true)?),
                '"' | '\'' => drop(inner.chars.next()),
                _ => {
                    let mut text = String::new();
                    while let Some(next) = inner.chars.next_if(|next| !matches!(next, '$' | '`' | '"' | '\'')) {
                        text.push(next);
                    }
                    word.push(Part::Text(text));
                }
            }
        }
        Ok(word)
    }

    fn until_backtick(&mut self) -> Result<String, SyntaxError> {
        let mut script = String::new();
        loop {
            match self.chars.next() {
                Some('`') => return Ok(script),
                Some('\\') => script.extend(self.chars.next()),
                Some(next) => script.push(next),
                None => return Err(SyntaxError("unterminated backtick".to_owned())),
            }
        }
    }

    /// Text up to the closing bracket, which may contain quotes and nested brackets.
    fn enclosed(&mut self, open: char, close: char) -> Result<String, SyntaxError> {
        let (mut text, mut level, mut quote) = (String::new(), 0, None);
        loop {
            let Some(next) = self.chars.next() else {
                return Err(SyntaxError(format!("missing {close:?}")));
            };
            match (next, quote) {
                ('\\', None | Some('"')) => {
                    text.push('\\');
                    text.extend(self.chars.next());
                    continue;
                }
                ('\'' | '"', None) => quote = Some(next),
                (next, Some(open)) if next == open => quote = None,
                (next, None) if next == open => level += 1,
                (next, None) if next == close => {
                    if level == 0 {
                        return Ok(text);
                    }
                    level -= 1;
                }
                _ => {}
            }
            text.push(next);
        }
    }
}
