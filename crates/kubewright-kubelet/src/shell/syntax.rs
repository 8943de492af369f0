//! Parses the part of the shell language that simulated containers understand.
//!
//! Lists, pipes, redirections, quotes, variables, substitutions, `if`, `while`, `until` and `for`.
//! Functions, `case`, background jobs and here-documents are errors.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Maximum nesting of commands and substitutions, so that a script cannot exhaust the stack.
const DEPTH_MAX: usize = 32;
/// Maximum length of a script.
const LENGTH_MAX: usize = 256 << 10;

/// Commands in order, each with the connector that precedes it.
pub type List = Vec<(Connector, Pipeline)>;

/// When a pipeline runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connector {
    /// Always: `;` or a new line.
    Then,
    /// After a success: `&&`.
    And,
    /// After a failure: `||`.
    Or,
}

/// Commands connected by `|`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Whether the status is inverted: `!`.
    pub is_negated: bool,
    /// The commands.
    pub commands: Vec<Command>,
}

/// A command with its redirections.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Its kind.
    pub kind: CommandKind,
    /// Its redirections, in order.
    pub redirects: Vec<Redirect>,
}

/// The kinds of commands.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandKind {
    /// Assignments, and a command with its arguments.
    Simple {
        /// `NAME=VALUE` before the command.
        assignments: Vec<(String, Word)>,
        /// The command and its arguments.
        words: Vec<Word>,
    },
    /// `{ LIST; }`
    Group(List),
    /// `( LIST )`, whose variables are its own.
    Subshell(List),
    /// Conditions with their lists, and the list of `else`.
    If(Vec<(List, List)>, List),
    /// `while` or `until`.
    While {
        /// The condition.
        condition: List,
        /// Whether the loop runs while the condition fails.
        is_until: bool,
        /// The body.
        body: List,
    },
    /// `for NAME in WORDS`.
    For(String, Vec<Word>, List),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq)]
pub enum Redirect {
    /// `< FILE`
    Input(Word),
    /// `N> FILE` or `N>> FILE`
    Output {
        /// 1 or 2.
        descriptor: u8,
        /// The file.
        file: Word,
        /// Whether the output is appended.
        appends: bool,
    },
    /// `N>&M`
    Duplicate {
        /// The redirected descriptor.
        descriptor: u8,
        /// Where it leads.
        to: u8,
    },
}

/// A word before its expansion.
pub type Word = Vec<Part>;

/// A part of a word.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A variable. An unquoted value is split into words.
    Variable {
        /// The name, or a special parameter such as `?`.
        name: String,
        /// The value of `${NAME:-DEFAULT}`, if the variable is empty.
        default: Option<Word>,
        /// Whether it is within double quotes.
        is_quoted: bool,
    },
    /// The output of commands.
    Commands(List, bool),
    /// An arithmetic expression.
    Arithmetic(Word),
    /// An empty quoted string, which is a word although it has no text.
    Empty,
}

/// Why a script cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError(String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a script.
///
/// # Errors
/// If it is malformed, or uses a part of the language that is not supported.
pub fn parse(script: &str) -> Result<List, SyntaxError> {
    parse_at(script, 0)
}

fn parse_at(script: &str, depth: usize) -> Result<List, SyntaxError> {
    if script.len() > LENGTH_MAX {
        return Err(SyntaxError("the script is too long".to_owned()));
    }
    let tokens = Lexer { chars: script.chars().peekable(), depth, tokens: Vec::new() }.run()?;
    let mut parser = Parser { tokens, at: 0, depth };
    let list = parser.list(&[])?;
    match parser.peek() {
        None => Ok(list),
        Some(token) => Err(unexpected(token)),
    }
}

fn unexpected(token: &Token) -> SyntaxError {
    SyntaxError(match token {
        Token::Operator(text) => format!("unexpected {text:?}"),
        Token::Word(word) => match plain(word) {
            Some(text) => format!("unexpected {text:?}"),
            None => "unexpected word".to_owned(),
        },
        Token::Descriptor(number) => format!("unexpected \"{number}\""),
    })
}

/// The text of a word without quotes and expansions.
fn plain(word: &Word) -> Option<&str> {
    match &word[..] {
        [Part::Text(text)] => Some(text),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(Word),
    Operator(&'static str),
    /// A number before a redirection.
    Descriptor(u8),
}

struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    depth: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn run(mut self) -> Result<Vec<Token>, SyntaxError> {
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

pub(super) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Operator(text)) if *text == operator);
        self.at += usize::from(is_next);
        is_next
    }

    /// The keyword that comes next, if it is one of these.
    fn keyword(&self, keywords: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Word(word)) = self.peek() else { return None };
        let text = plain(word)?;
        keywords.iter().copied().find(|keyword| *keyword == text)
    }

    fn expect(&mut self, keyword: &'static str) -> Result<(), SyntaxError> {
        match self.keyword(&[keyword]) {
            Some(_) => {
                self.at += 1;
                Ok(())
            }
            None => match self.peek() {
                Some(token) => Err(unexpected(token)),
                None => Err(SyntaxError(format!("unexpected end of file (expecting {keyword:?})"))),
            },
        }
    }

    /// A list up to one of these keywords, a closing bracket, or the end.
    fn list(&mut self, ends: &[&'static str]) -> Result<List, SyntaxError> {
        let (mut list, mut connector) = (List::new(), Connector::Then);
        loop {
            while self.take_operator(";") {}
            let is_end = match self.peek() {
                None => true,
                Some(Token::Operator(")")) => true,
                Some(_) => self.keyword(ends).is_some(),
            };
            if is_end {
                if connector != Connector::Then {
                    return Err(SyntaxError("unexpected end of file".to_owned()));
                }
                return Ok(list);
            }
            list.push((connector, self.pipeline()?));
            connector = if self.take_operator("&&") {
                Connector::And
            } else if self.take_operator("||") {
                Connector::Or
            } else if self.take_operator(";") {
                Connector::Then
            } else {
                match self.peek() {
                    None | Some(Token::Operator(")")) => return Ok(list),
                    Some(token) => return Err(unexpected(token)),
                }
            };
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, SyntaxError> {
        let is_negated = self.keyword(&["!"]).is_some();
        self.at += usize::from(is_negated);
        let mut commands = vec![self.command()?];
        while self.take_operator("|") {
            while self.take_operator(";") {}
            commands.push(self.command()?);
        }
        Ok(Pipeline { is_negated, commands })
    }

    fn command(&mut self) -> Result<Command, SyntaxError> {
        if self.depth >= DEPTH_MAX {
            return Err(SyntaxError("commands are nested too deeply".to_owned()));
        }
        self.depth += 1;
        let kind = self.command_kind()?;
        self.depth -= 1;
        let mut command = Command { kind, redirects: Vec::new() };
        if matches!(command.kind, CommandKind::Simple { .. }) {
            self.simple(&mut command)?;
        } else {
            while let Some(redirect) = self.redirect()? {
                command.redirects.push(redirect);
            }
        }
        Ok(command)
    }

    fn command_kind(&mut self) -> Result<CommandKind, SyntaxError> {
        if self.take_operator("(") {
            let list = self.list(&[])?;
            if !self.take_operator(")") {
                return Err(SyntaxError("unexpected end of file (expecting \")\")".to_owned()));
            }
            return Ok(CommandKind::Subshell(list));
        }
        let Some(keyword) = self.keyword(&["{", "if", "while", "until", "for", "case", "function"]) else {
            return Ok(CommandKind::Simple { assignments: Vec::new(), words: Vec::new() });
        };
        self.at += 1;
        match keyword {
            "{" => {
                let list = self.list(&["}"])?;
                self.expect("}")?;
                Ok(CommandKind::Group(list))
            }
            "if" => self.branches(),
            "for" => {
                let name = match self.peek() {
                    Some(Token::Word(word)) => plain(word).map(str::to_owned),
                    _ => None,
                };
                let name = name.ok_or_else(|| SyntaxError("bad for loop variable".to_owned()))?;
                self.at += 1;
                self.expect("in")?;
                let mut words = Vec::new();
                while let Some(Token::Word(word)) = self.peek() {
                    words.push(word.clone());
                    self.at += 1;
                }
                Ok(CommandKind::For(name, words, self.loop_body()?))
            }
            "while" | "until" => {
                let condition = self.list(&["do"])?;
                Ok(CommandKind::While { condition, is_until: keyword == "until", body: self.loop_body()? })
            }
            keyword => Err(SyntaxError(format!("{keyword} is not supported"))),
        }
    }

    fn loop_body(&mut self) -> Result<List, SyntaxError> {
        while self.take_operator(";") {}
        self.expect("do")?;
        let body = self.list(&["done"])?;
        self.expect("done")?;
        Ok(body)
    }

    /// The branches after `if`.
    fn branches(&mut self) -> Result<CommandKind, SyntaxError> {
        let mut branches = Vec::new();
        loop {
            let condition = self.list(&["then"])?;
            self.expect("then")?;
            branches.push((condition, self.list(&["elif", "else", "fi"])?));
            match self.keyword(&["elif", "else"]) {
                Some("elif") => self.at += 1,
                Some(_) => {
                    self.at += 1;
                    let otherwise = self.list(&["fi"])?;
                    self.expect("fi")?;
                    return Ok(CommandKind::If(branches, otherwise));
                }
                None => {
                    self.expect("fi")?;
                    return Ok(CommandKind::If(branches, List::new()));
                }
            }
        }
    }

    fn simple(&mut self, command: &mut Command) -> Result<(), SyntaxError> {
        let CommandKind::Simple { assignments, words } = &mut command.kind else { return Ok(()) };
        loop {
            if let Some(redirect) = self.redirect()? {
                command.redirects.push(redirect);
                continue;
            }
            let Some(Token::Word(word)) = self.peek() else { break };
            let word = word.clone();
            self.at += 1;
            match assignment(&word) {
                Some(assignment) if words.is_empty() => assignments.push(assignment),
                _ => words.push(word),
            }
        }
        if assignments.is_empty() && words.is_empty() && command.redirects.is_empty() {
            return Err(match self.peek() {
                Some(token) => unexpected(token),
                None => SyntaxError("unexpected end of file".to_owned()),
            });
        }
        // `name ()` defines a function.
        if matches!(self.peek(), Some(Token::Operator("("))) {
            return Err(SyntaxError("functions are not supported".to_owned()));
        }
        Ok(())
    }

    fn redirect(&mut self) -> Result<Option<Redirect>, SyntaxError> {
        let descriptor = match self.peek() {
            Some(Token::Descriptor(number)) => Some(*number),
            _ => None,
        };
        let operator = match self.tokens.get(self.at + usize::from(descriptor.is_some())) {
            Some(Token::Operator(operator @ ("<" | ">" | ">>" | ">&"))) => *operator,
            _ => return Ok(None),
        };
        self.at += 1 + usize::from(descriptor.is_some());
        let Some(Token::Word(word)) = self.peek() else {
            return Err(SyntaxError(format!("nothing follows {operator:?}")));
        };
        let word = word.clone();
        self.at += 1;
        let unsupported = || SyntaxError("only descriptors 0, 1 and 2 can be redirected".to_owned());
        Ok(Some(match (operator, descriptor) {
            ("<", None | Some(0)) => Redirect::Input(word),
            (">" | ">>", None | Some(1 | 2)) => {
                Redirect::Output { descriptor: descriptor.unwrap_or(1), file: word, appends: operator == ">>" }
            }
            (">&", None | Some(1 | 2)) => match plain(&word) {
                Some("1") => Redirect::Duplicate { descriptor: descriptor.unwrap_or(1), to: 1 },
                Some("2") => Redirect::Duplicate { descriptor: descriptor.unwrap_or(1), to: 2 },
                _ => return Err(unsupported()),
            },
            _ => return Err(unsupported()),
        }))
    }
}

/// The name and value of a word of the form `NAME=VALUE`.
fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some(Part::Text(first)) = word.first() else { return None };
    let (name, value) = first.split_once('=')?;
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_name_character) {
        return None;
    }
    let mut rest = word[1..].to_vec();
    if !value.is_empty() {
        rest.insert(0, Part::Text(value.to_owned()));
    }
    Some((name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(script: &str) -> String {
        parse(script).map_or_else(|error| error.to_string(), |list| format!("{} commands", list.len()))
    }

    #[test]
    fn scripts_are_parsed() {
        for script in [
            "echo hi; sleep 5\nexit 3",
            "while true; do echo $(date); sleep 1; done",
            "if [ -f /a ]; then echo a; elif false; then :; else echo b; fi",
            "for i in 1 2 3; do echo \"$i: ${X:-none}\" >> /tmp/log 2>&1; done",
            "{ echo a; echo b; } | (cat; cat) < /dev/null && ! false || true",
            "i=$((i + 1)); A=b echo 'a;b' \"if\" # comment",
            "echo `echo a`",
            "",
        ] {
            assert!(parse(script).is_ok(), "{script}: {}", message(script));
        }
    }

    #[test]
    fn what_is_not_supported_is_an_error() {
        for (script, want) in [
            ("echo 'a", "unterminated quoted string"),
            ("if true; then echo", "unexpected end of file (expecting \"fi\")"),
            ("sleep 1 &", "background jobs are not supported"),
            ("cat << E\nE", "here-documents are not supported"),
            ("case a in esac", "case is not supported"),
            ("f() { :; }", "functions are not supported"),
            ("echo a &&", "unexpected end of file"),
            ("; )", "unexpected \")\""),
            ("echo ${X%%a}", "${X%%a} is not supported"),
            ("echo >", "nothing follows \">\""),
            ("echo $(echo", "missing ')'"),
        ] {
            assert_eq!(message(script), want, "{script}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(message(&"(".repeat(1000)), "commands are nested too deeply");
        let nested = format!("{}{}", "$(echo ".repeat(100), ")".repeat(100));
        assert_eq!(message(&nested), "substitutions are nested too deeply");
        assert_eq!(message(&"a".repeat(LENGTH_MAX + 1)), "the script is too long");
    }
}
