//! The commands of a script.

use super::{
    Command, CommandKind, Connector, DEPTH_MAX, List, Part, Pipeline, Redirect, SyntaxError, Token, Word,
    is_name_character, plain, unexpected,
};

/// Reads commands from tokens.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    /// `depth` is the nesting of the script.
    pub(super) fn new(tokens: Vec<Token>, depth: usize) -> Self {
        Parser { tokens, at: 0, depth }
    }

    /// The next token.
    pub(super) fn peek(&self) -> Option<&Token> {
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
    /// The commands up to one of these keywords.
    pub(super) fn list(&mut self, ends: &[&'static str]) -> Result<List, SyntaxError> {
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
