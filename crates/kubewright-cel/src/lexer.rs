//! Splits the source of an expression into tokens.

use kubewright_core::Str;

use crate::error::CompileError;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Identifier(Str),
    Int(i64),
    /// 9223372036854775808, which is an `int` only after a minus sign.
    IntMinimum,
    Uint(u64),
    Double(f64),
    String(Str),
    Bytes(Vec<u8>),
    /// An operator or punctuation.
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "[?", ".?", "{?", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{",
];

/// The tokens of a text with their positions in characters. The last token is [`Token::End`].
pub(crate) fn tokenize(text: &str) -> Result<Vec<(usize, Token)>, CompileError> {
    let mut lexer = Lexer { text, letters: text.chars().collect(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let begin = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        tokens.push((begin, token));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    letters: Vec<char>,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, prefix: &str) -> bool {
        prefix.chars().enumerate().all(|(ahead, letter)| self.peek(ahead) == Some(letter))
    }

    fn error(&self, message: impl std::fmt::Display) -> CompileError {
        CompileError::at(self.text, self.at, format!("Syntax error: {message}"))
    }

    fn skip_space(&mut self) {
        loop {
            if self.starts_with("//") {
                while self.peek(0).is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
            }
            match self.peek(0) {
                Some(letter) if letter.is_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<Token, CompileError> {
        let Some(first) = self.peek(0) else { return Ok(Token::End) };
        if let Some(prefix) = self.quote_prefix() {
            return self.quoted(prefix);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())) {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Token::Identifier(
                self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_').into(),
            ));
        }
        if first == '`' {
            self.at += 1;
            let name = self.take_while(|letter| letter.is_ascii_alphanumeric() || "_.-/ ".contains(letter));
            if self.peek(0) != Some('`') || name.is_empty() {
                return Err(self.error("token recognition error at: '`'"));
            }
            self.at += 1;
            return Ok(Token::Identifier(name.into()));
        }
        if first == '}' {
            self.at += 1;
            return Ok(Token::Symbol("}"));
        }
        let Some(symbol) = SYMBOLS.into_iter().find(|symbol| self.starts_with(symbol)) else {
            return Err(self.error(format_args!("token recognition error at: '{first}'")));
        };
        self.at += symbol.len();
        Ok(Token::Symbol(symbol))
    }

    fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(letter) = self.peek(0).filter(|letter| wanted(*letter)) {
            taken.push(letter);
            self.at += 1;
        }
        taken
    }

    fn number(&mut self) -> Result<Token, CompileError> {
        let invalid = |lexer: &Self| lexer.error("invalid number literal");
        if self.starts_with("0x") || self.starts_with("0X") {
            self.at += 2;
            let digits = self.take_while(|letter| letter.is_ascii_hexdigit());
            let value = u64::from_str_radix(&digits, 16).map_err(|_| invalid(self))?;
            return self.integer(value);
        }
        let mut digits = self.take_while(|letter| letter.is_ascii_digit());
        let mut is_integer = true;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            self.at += 1;
            is_integer = false;
            digits.push('.');
            digits += &self.take_while(|letter| letter.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|next| next.is_ascii_digit()) {
            is_integer = false;
            digits.extend((0..=sign).filter_map(|ahead| self.peek(ahead)));
            self.at += 1 + sign;
            digits += &self.take_while(|letter| letter.is_ascii_digit());
        }
        if !is_integer {
            if digits.starts_with('.') {
                digits.insert(0, '0');
            }
            return digits.parse().map(Token::Double).map_err(|_| invalid(self));
        }
        let value: u64 = digits.parse().map_err(|_| self.error("invalid int literal"))?;
        self.integer(value)
    }

    fn integer(&mut self, value: u64) -> Result<Token, CompileError> {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Ok(Token::Uint(value));
        }
        match i64::try_from(value) {
            Ok(value) => Ok(Token::Int(value)),
            Err(_) if value == 1 << 63 => Ok(Token::IntMinimum),
            Err(_) => Err(self.error("invalid int literal")),
        }
    }

    /// The prefix `r`, `b` or both of a string literal, if one starts here.
    fn quote_prefix(&self) -> Option<String> {
        let letters: String =
            (0..2).map_while(|ahead| self.peek(ahead).filter(|letter| "rRbB".contains(*letter))).collect();
        let is_doubled = letters.len() == 2 && letters[..1].eq_ignore_ascii_case(&letters[1..]);
        matches!(self.peek(letters.len()), Some('"' | '\'')).then_some(letters).filter(|_| !is_doubled)
    }

    fn quoted(&mut self, prefix: String) -> Result<Token, CompileError> {
        let begin = self.at;
        let has = |flag: char| prefix.to_ascii_lowercase().contains(flag);
        let (is_raw, is_bytes) = (has('r'), has('b'));
        self.at += prefix.len();
        let quote = self.peek(0).unwrap_or_default();
        let is_triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let close = quote.to_string().repeat(if is_triple { 3 } else { 1 });
        self.at += close.len();
        let mut bytes = Vec::new();
        while !self.starts_with(&close) {
            let letter = match self.peek(0) {
                Some('\n') if !is_triple => None,
                other => other,
            };
            let Some(letter) = letter else {
                self.at = begin;
                return Err(self.error(format_args!("token recognition error at: '{quote}'")));
            };
            self.at += 1;
            if letter == '\\' && !is_raw {
                self.escape(is_bytes, &mut bytes)?;
            } else {
                push(&mut bytes, letter);
            }
        }
        self.at += close.len();
        if is_bytes {
            return Ok(Token::Bytes(bytes));
        }
        String::from_utf8(bytes).map(|text| Token::String(text.into())).map_err(|_| self.error("invalid UTF-8"))
    }

    /// Reads an escape sequence, after its backslash.
    fn escape(&mut self, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<(), CompileError> {
        let letter = self.peek(0).ok_or_else(|| self.error("unterminated escape"))?;
        self.at += 1;
        let plain = match letter {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '?' | '"' | '\'' | '`' => Some(letter),
            _ => None,
        };
        if let Some(plain) = plain {
            push(bytes, plain);
            return Ok(());
        }
        let (digits, radix) = match letter {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => {
                self.at -= 1;
                (3, 8)
            }
            other => return Err(self.error(format_args!("unable to unescape \\{other}"))),
        };
        let mut code = 0;
        for _ in 0..digits {
            let digit = self.peek(0).and_then(|letter| letter.to_digit(radix));
            let digit = digit.ok_or_else(|| self.error("unable to unescape"))?;
            code = code * radix + digit;
            self.at += 1;
        }
        match (is_bytes && digits < 4, char::from_u32(code)) {
            (true, _) => bytes.push(code as u8),
            (false, Some(letter)) => push(bytes, letter),
            (false, None) => return Err(self.error("invalid unicode code point")),
        }
        Ok(())
    }
}

fn push(bytes: &mut Vec<u8>, letter: char) {
    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}
