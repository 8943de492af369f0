//! Regular expressions in the syntax of Go's `regexp` package.
//!
//! The crate `regex` has nearly the same syntax, with two differences: it requires some characters
//! to be escaped, and its classes `\d`, `\s` and `\w` match Unicode, Go's only ASCII. Patterns are
//! therefore rewritten before they are compiled.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;

/// The number of compiled patterns in the cache.
const CACHE_SIZE: usize = 512;

/// A compiled pattern. Matching takes time linear in the text. Clones are cheap.
#[derive(Debug, Clone)]
pub struct GoRegex(Regex);

impl GoRegex {
    /// Compiles a pattern, or returns it from a process-wide cache.
    ///
    /// # Errors
    /// The syntax error. Its text is Go's where the crate `regex` would accept the pattern.
    pub fn compile(pattern: &str) -> Result<GoRegex, String> {
        static CACHE: LazyLock<Mutex<HashMap<String, GoRegex>>> = LazyLock::new(Mutex::default);
        let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = cache().get(pattern) {
            return Ok(regex.clone());
        }
        let out = String::with_capacity(pattern.len());
        let rewritten = Rewriter { rest: pattern, out, repetitions: Repetitions::default() }.rewrite()?;
        let regex = GoRegex(Regex::new(&rewritten).map_err(|error| error.to_string())?);
        let mut cache = cache();
        if cache.len() >= CACHE_SIZE {
            cache.clear();
        }
        cache.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    /// Whether the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The matches in `text` from left to right, without overlaps.
    pub fn matches<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.0.find_iter(text).map(|found| found.as_str())
    }
}

/// Characters with a special meaning, which stay escaped.
const META: &str = r"\.+*?()|[]{}^$#&-~";

struct Rewriter<'a> {
    rest: &'a str,
    out: String,
    repetitions: Repetitions,
}

impl Rewriter<'_> {
    fn rewrite(mut self) -> Result<String, String> {
        while let Some(letter) = self.take() {
            match letter {
                '\\' => self.escape(),
                '[' => self.class(),
                '{' if !is_repetition(self.rest) => self.out.push_str(r"\{"),
                '*' | '+' | '?' | '{' => {
                    self.repetition(letter)?;
                    continue;
                }
                '(' | ')' | '|' => {
                    self.out.push(letter);
                    self.repetitions.bracket(letter);
                    continue;
                }
                other => self.out.push(other),
            }
            self.repetitions.item();
        }
        Ok(self.out)
    }

    /// A repetition operator, with the `?` that makes it lazy.
    fn repetition(&mut self, letter: char) -> Result<(), String> {
        let from = self.rest;
        let counts = match letter {
            '{' => from.split_once('}').map(|(counts, _)| counts),
            _ => None,
        };
        self.rest = &from[counts.map_or(0, |counts| counts.len() + 1)..];
        self.take_if("?");
        let operator = format!("{letter}{}", &from[..from.len() - self.rest.len()]);
        self.out.push_str(&operator);
        self.repetitions.repeat(operator, counts)
    }

    fn take(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn take_if(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// An escape sequence, after its backslash. `\Q` quotes everything up to `\E`.
    fn escape(&mut self) {
        match self.take() {
            Some('Q') => {
                let (text, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                self.out.push_str(&regex::escape(text));
            }
            // A character by its number, or a Unicode class by its name.
            Some(letter @ ('x' | 'p' | 'P')) if self.rest.starts_with('{') => {
                let end = self.rest.find('}').map_or(self.rest.len(), |end| end + 1);
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                self.out.extend(['\\', letter]);
                self.out.push_str(name);
            }
            // With their own brackets they can be nested in a class.
            Some('d') => self.out.push_str("[0-9]"),
            Some('D') => self.out.push_str("[^0-9]"),
            Some('s') => self.out.push_str(r"[\t\n\f\r ]"),
            Some('S') => self.out.push_str(r"[^\t\n\f\r ]"),
            Some('w') => self.out.push_str("[0-9A-Za-z_]"),
            Some('W') => self.out.push_str("[^0-9A-Za-z_]"),
            Some('b') => self.out.push_str(r"(?-u:\b)"),
            Some(letter) if letter.is_ascii_punctuation() && !META.contains(letter) => self.out.push(letter),
            Some(letter) => self.out.extend(['\\', letter]),
            None => self.out.push('\\'),
        }
    }

    /// A character class, after its bracket.
    ///
    /// A dash between two items is a range, elsewhere a literal. A bracket that does not begin a
    /// named class is a literal. Go has no set operators `&&`, `--` and `~~`.
    fn class(&mut self) {
        self.out.push('[');
        if self.take_if("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        // Whether the previous item can be the start of a range.
        let mut can_start_range = false;
        while let Some(letter) = self.take() {
            match letter {
                ']' if !is_first => return self.out.push(']'),
                '[' if self.named_class() => can_start_range = false,
                '-' if can_start_range && !self.rest.starts_with(']') => {
                    self.out.push('-');
                    if let Some(end) = self.take() {
                        self.item(end);
                    }
                    can_start_range = false;
                }
                other => {
                    // A range cannot start with a class.
                    can_start_range = other != '\\' || !self.rest.starts_with(['d', 'D', 's', 'S', 'w', 'W', 'p', 'P']);
                    self.item(other);
                }
            }
            is_first = false;
        }
    }

    /// One character of a class.
    fn item(&mut self, letter: char) {
        match letter {
            '\\' => self.escape(),
            '[' | ']' | '&' | '-' | '~' | '^' => self.out.extend(['\\', letter]),
            other => self.out.push(other),
        }
    }

    /// `[:alpha:]`, if the bracket begins one.
    fn named_class(&mut self) -> bool {
        let Some((name, rest)) = self.rest.strip_prefix(':').and_then(|rest| rest.split_once(":]")) else {
            return false;
        };
        if !name.trim_start_matches('^').bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return false;
        }
        self.out.extend(["[:", name, ":]"]);
        self.rest = rest;
        true
    }
}

/// Enforces Go's limits: no repetition of a repetition, and at most 1000 repetitions of anything.
#[derive(Default)]
struct Repetitions {
    /// For each open group, the highest repetition count inside it.
    groups: Vec<u64>,
    /// The same outside of all groups.
    whole: u64,
    /// The highest repetition count inside the last item.
    last: u64,
    /// The operator that was just read, if any.
    operator: Option<String>,
}

impl Repetitions {
    const MAX: u64 = 1000;

    fn item(&mut self) {
        (self.last, self.operator) = (1, None);
    }

    fn bracket(&mut self, letter: char) {
        match letter {
            '(' => self.groups.push(1),
            ')' => {
                let inner = self.groups.pop().unwrap_or(1);
                self.last = inner;
                self.note(inner);
            }
            _ => self.last = 1,
        }
        self.operator = None;
    }

    /// A repetition operator, with its counts if it is `{least,most}`.
    fn repeat(&mut self, operator: String, counts: Option<&str>) -> Result<(), String> {
        if let Some(before) = self.operator.take() {
            return Err(format!("invalid nested repetition operator: `{before}{operator}`"));
        }
        if let Some(counts) = counts {
            let shown = operator.trim_end_matches('?');
            let invalid = || format!("invalid repeat count: `{shown}`");
            let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
            let number =
                |text: &str| text.parse().ok().filter(|count: &u64| *count <= Repetitions::MAX).ok_or_else(invalid);
            let least = number(least)?;
            let most = if most.is_empty() { least } else { number(most)? };
            self.last = self.last.max(1) * most.max(1);
            if self.last > Repetitions::MAX && (least > 1 || most > 1) {
                return Err(invalid());
            }
            self.note(self.last);
        }
        self.operator = Some(operator);
        Ok(())
    }

    fn note(&mut self, times: u64) {
        let group = self.groups.last_mut().unwrap_or(&mut self.whole);
        *group = times.max(*group);
    }
}

/// Whether the text after a brace makes it a repetition: `3}`, `3,}` or `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, matches, others) in [
            (r"^[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]+$", &["https://a.b/[c]?d=~e"][..], &["a b", ""][..]),
            (r"^{{.*}}$", &["{{ .Values.a }}"], &["{ }"]),
            (r"^a{2}{$", &["aa{"], &["a{2}{"]),
            (r"^[a-f&&0-9]+$", &["a&9"], &["g", "-"]),
            (r"^[+--]+$", &["+,-"], &["."]),
            (r"^[--/]+$", &["-./"], &[","]),
            (r"^[a~~b-]+$", &["a~b-"], &["c"]),
            (r"^[]a]+$", &["]a"], &["b"]),
            (r"^[^]a]+$", &["b"], &["]"]),
            (r"^[[:alpha:]_]+$", &["ab_"], &["a1", ":"]),
            (r"^[[:]+$", &["[:"], &["a"]),
            (r"^\Qa.b*\E+$", &["a.b***"], &["aXb*"]),
            (r#"^\<\"\/\_\>$"#, &[r#"<"/_>"#], &["a"]),
            (r"^\d{1,3}(\.\d{1,3}){3}$", &["10.0.0.1"], &["10.0.0"]),
            (r"^(?P<name>[\w.-]+)$", &["a-b.c"], &["a b"]),
            (r"^\d+\s\w+$", &["1 a"], &["١ a", "1 ä", "1\u{a0}a"]),
            (r"^[\D]+[^\w]$", &["aä-"], &["1-", "aa"]),
            (r"^\ba\b", &["a b", "aä"], &["ab"]),
            (r"^[\d\-x]+$", &["1-x"], &["a"]),
            (r"^[\w-.]+$", &["a-b.c"], &["a b", ","]),
            (r"^\x{FEFF}?[\x{61}-\x{7A}]+$", &["abc", "\u{feff}abc"], &["A"]),
        ] {
            let regex = GoRegex::compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(matches.iter().all(|text| regex.is_match(text)), "{pattern} matches {matches:?}");
            assert!(!others.iter().any(|text| regex.is_match(text)), "{pattern} does not match {others:?}");
        }
        for pattern in ["(", "[a", r"\", "[b-a]", "(?z)"] {
            assert!(GoRegex::compile(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn repetition_limits_equal_those_of_go() {
        for pattern in
            ["a*?b", "(a+)+", "a{1000}", "(a{10}){100}", "a{2,1000}?", "[*+]+", r"\*+", "(?:a|b?)*", "(?i)a+"]
        {
            assert!(GoRegex::compile(pattern).is_ok(), "{pattern}: {:?}", GoRegex::compile(pattern).err());
        }
        for (pattern, why) in [
            ("a**", "invalid nested repetition operator: `**`"),
            ("a++", "invalid nested repetition operator: `++`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1001}", "invalid repeat count: `{2,1001}`"),
            ("a{1001,}", "invalid repeat count: `{1001,}`"),
            ("(a{500}){3}", "invalid repeat count: `{3}`"),
            ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        ] {
            assert_eq!(GoRegex::compile(pattern).err().as_deref(), Some(why), "{pattern}");
        }
    }
}
