//! Static tokens, in the file format of kube-apiserver.

use std::collections::HashMap;
use std::{fmt, io, path::Path};

use kubewright_core::Str;

use crate::User;

/// Static tokens and their users. `Debug` does not print them.
#[derive(Clone, Default)]
pub struct StaticTokens {
    users: HashMap<String, User>,
}

/// Why a token file was rejected.
#[derive(Debug)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file could not be read.
    Read(io::Error),
    /// A line does not have the form `token,user,uid,"group,group"`.
    Line {
        /// The line number, from 1.
        line: usize,
    },
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileError::Read(_) => f.write_str("token file could not be read"),
            TokenFileError::Line { line } => {
                write!(f, "line {line} of the token file is not of the form token,user,uid,\"group,group\"")
            }
        }
    }
}

impl std::error::Error for TokenFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TokenFileError::Read(error) => Some(error),
            TokenFileError::Line { .. } => None,
        }
    }
}

impl StaticTokens {
    /// Reads a file of lines `token,user,uid,"group,group"`. The groups are optional.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is malformed.
    pub fn from_file(path: &Path) -> Result<Self, TokenFileError> {
        StaticTokens::from_csv(&std::fs::read_to_string(path).map_err(TokenFileError::Read)?)
    }

    /// Like [`from_file`](Self::from_file), from text.
    ///
    /// # Errors
    ///
    /// A line is malformed.
    pub fn from_csv(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = StaticTokens::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let malformed = || TokenFileError::Line { line: index + 1 };
            let fields = fields(line).ok_or_else(malformed)?;
            let [token, user, uid, groups @ ..] = &fields[..] else { return Err(malformed()) };
            if token.is_empty() {
                return Err(malformed());
            }
            let groups = groups.first().map(String::as_str).unwrap_or_default().split(',').map(str::trim);
            let groups: Vec<Str> = groups.filter(|group| !group.is_empty()).map(Str::from).collect();
            tokens.users.insert(token.clone(), User::authenticated(user.as_str(), uid.as_str(), groups));
        }
        Ok(tokens)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.users.len())
    }
}

/// Splits a CSV line. Quotes protect commas. `None` if a quote is not closed.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    (!quoted).then(|| fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_user_and_groups() {
        let tokens = StaticTokens::from_csv("s3cret,jane,7,\"dev,ops\"\nother,bob,8\n").expect("both lines are fine");
        let jane = tokens.user("s3cret").expect("the token is known");
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert!(jane.is_in("dev") && jane.is_in("ops") && jane.is_in("system:authenticated"));
        assert_eq!(tokens.user("other").map(|user| user.groups.len()), Some(1));
        assert!(tokens.user("unknown").is_none());
        assert_eq!(format!("{tokens:?}"), "2 tokens");
    }

    #[test]
    fn a_malformed_line_is_named() {
        assert!(matches!(StaticTokens::from_csv("a,b,c\nlonely"), Err(TokenFileError::Line { line: 2 })));
    }
}
