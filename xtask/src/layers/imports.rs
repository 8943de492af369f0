//! The paths that a Rust file names, read from its tokens.

use std::collections::BTreeSet;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The imports and exports of a file, parsed from its tokens.
#[derive(Default)]
pub struct Imports {
    /// Paths that begin with `crate`, `self`, `super` or the name of a child module.
    pub paths: BTreeSet<Vec<String>>,
    /// Names that `pub use` makes available here, each with the path of the item.
    pub exports: Vec<(String, Vec<String>)>,
}

impl Imports {
    /// Reads the text of a file whose module has these `children`. Items under `#[cfg(test)]` are
    /// skipped.
    pub fn read(text: &str, children: &BTreeSet<String>) -> Result<Imports, String> {
        let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let mut imports = Imports::default();
        imports.walk(&tokens.into_iter().collect::<Vec<_>>(), children);
        Ok(imports)
    }

    fn walk(&mut self, tokens: &[TokenTree], children: &BTreeSet<String>) {
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens[at..]) {
                at = end_of_item(tokens, at + 2);
                continue;
            }
            match &tokens[at] {
                // `pub(in crate::a)` is a visibility, not an import.
                TokenTree::Ident(word) if *word == "pub" && is_parenthesis(tokens.get(at + 1)) => at += 1,
                TokenTree::Ident(word) if *word == "use" => {
                    let is_public = at > 0 && is_visibility(tokens, at);
                    let end = tokens[at..].iter().position(is_semicolon).map_or(tokens.len(), |offset| at + offset);
                    self.use_tree(&tokens[at + 1..end], &mut Vec::new(), is_public, children);
                    at = end;
                }
                TokenTree::Ident(_) => {
                    let path = path_at(tokens, at);
                    at += path.len() * 3 - 2;
                    self.add(path, children);
                    continue;
                }
                TokenTree::Group(group) => {
                    self.walk(&group.stream().into_iter().collect::<Vec<_>>(), children);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Records a path if it leads to another module of the crate.
    fn add(&mut self, path: Vec<String>, children: &BTreeSet<String>) {
        if path.len() > 1 && is_local(&path, children) {
            self.paths.insert(path);
        }
    }

    fn use_tree(
        &mut self,
        tokens: &[TokenTree],
        prefix: &mut Vec<String>,
        is_public: bool,
        children: &BTreeSet<String>,
    ) {
        for branch in tokens.split(is_comma) {
            let depth = prefix.len();
            let mut alias = None;
            let mut rest = branch.iter();
            while let Some(token) = rest.next() {
                match token {
                    TokenTree::Ident(word) if *word == "as" => alias = rest.next().map(ToString::to_string),
                    TokenTree::Ident(word) => prefix.push(word.to_string()),
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.use_tree(&inner, prefix, is_public, children);
                        prefix.truncate(depth);
                    }
                    _ => {}
                }
            }
            if prefix.len() > depth {
                let name = alias.or_else(|| prefix.last().cloned()).unwrap_or_default();
                if !is_local(prefix, children) {
                    // A path of another crate.
                } else if is_public {
                    self.exports.push((name, prefix.clone()));
                } else {
                    self.paths.insert(prefix.clone());
                }
                prefix.truncate(depth);
            }
        }
    }
}

fn is_local(path: &[String], children: &BTreeSet<String>) -> bool {
    matches!(path[0].as_str(), "crate" | "self" | "super") || children.contains(&path[0])
}

/// The path that begins with the identifier at `at`: identifiers with `::` between them.
fn path_at(tokens: &[TokenTree], at: usize) -> Vec<String> {
    let mut path = vec![tokens[at].to_string()];
    let mut next = at + 1;
    while let [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(word), ..] = &tokens[next..] {
        if one.as_char() != ':' || two.as_char() != ':' {
            break;
        }
        path.push(word.to_string());
        next += 3;
    }
    path
}

fn is_parenthesis(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

fn is_semicolon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';')
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')
}

/// Whether `pub` or `pub(…)` stands before the token at `at`.
fn is_visibility(tokens: &[TokenTree], at: usize) -> bool {
    let before = match &tokens[at - 1] {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis && at > 1 => &tokens[at - 2],
        token => token,
    };
    matches!(before, TokenTree::Ident(word) if *word == "pub")
}

/// Whether the tokens begin with `#[cfg(test)]`, or with `#[cfg(any(test, …))]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(group), ..] = tokens else { return false };
    let text = group.stream().to_string().replace(' ', "");
    hash.as_char() == '#' && (text.starts_with("cfg(test") || text.starts_with("cfg(any(test"))
}

/// The index behind the item that begins at `at`: behind its braces or its semicolon.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_end = |token: &TokenTree| {
        is_semicolon(token) || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let mut end = tokens[at..].iter().position(is_end).map_or(tokens.len(), |offset| at + offset + 1);
    // `use a::{b};` has braces before its semicolon.
    if tokens.get(end).is_some_and(is_semicolon) {
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Imports {
        Imports::read(text, &BTreeSet::from(["child".to_owned()])).expect("valid tokens")
    }

    fn paths(text: &str) -> Vec<String> {
        read(text).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn a_use_tree_is_unfolded() {
        let text = "use crate::{a::B, c::{D as E, self}}; use std::fmt; use super::f;";
        assert_eq!(paths(text), ["crate::a::B", "crate::c::D", "crate::c::self", "super::f"]);
    }

    #[test]
    fn paths_in_code_and_macros_count() {
        let text = "fn f() { crate::a::b(); child::c(); vec![super::D]; other::e(); x.child }";
        assert_eq!(paths(text), ["child::c", "crate::a::b", "super::D"]);
    }

    #[test]
    fn tests_are_skipped_and_comments_too() {
        let text = "// crate::no::A\n#[cfg(test)] mod tests { use crate::no::B; } use crate::yes::C;";
        assert_eq!(paths(text), ["crate::yes::C"]);
    }

    #[test]
    fn a_visibility_imports_nothing() {
        assert_eq!(paths("pub(in crate::a::b) fn f() {} pub(super) struct S;"), [""; 0]);
    }

    #[test]
    fn a_public_use_is_an_export() {
        let imports = read("pub use child::Name; pub(crate) use self::child::Other as Alias;");
        assert!(imports.paths.is_empty());
        let names: Vec<&str> = imports.exports.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Name", "Alias"]);
    }
}
