//! Parses the part of the shell language that simulated containers understand.
//!
//! Lists, pipes, redirections, quotes, variables, substitutions, `if`, `while`, `until` and `for`.
//! Functions, `case`, background jobs and here-documents are errors.

mod lexer;
mod parser;

use std::fmt;

use lexer::{Lexer, Token};
use parser::Parser;

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
    let tokens = Lexer::new(script, depth).run()?;
    let mut parser = Parser::new(tokens, depth);
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

/// Whether a character may be in the name of a variable.
pub(super) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
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
