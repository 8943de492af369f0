//! Regular expressions as Go reads them.
//!
//! Users write what Go's `regexp` accepts. The crate `regex` has nearly the same syntax, and
//! differs in two points: it wants some characters escaped, and `\d`, `\s` and `\w` are classes of
//! Unicode there, of ASCII in Go. So a pattern is translated before it is compiled.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use ::regex::Regex;

/// How many compiled patterns are remembered.
const REMEMBERED: usize = 512;

/// Compiles a pattern, or takes it from those compiled last: rules of CEL use the same pattern for
/// every object.
///
/// # Errors
/// The syntax error. Its text is Go's where the crate would have accepted the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let remembered = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = remembered().get(pattern) {
        return Ok(regex.clone());
    }
    let rewriter = Rewriter { rest: pattern, out: String::with_capacity(pattern.len()), repeats: Repeats::default() };
    let regex = Regex::new(&rewriter.rewrite()?).map_err(|error| error.to_string())?;
    let mut compiled = remembered();
    if compiled.len() >= REMEMBERED {
        compiled.clear();
    }
    compiled.insert(pattern.to_owned(), regex.clone());
    Ok(regex)
}

/// Characters that mean something, and stay escaped.
const META: &str = r"\.+*?()|[]{}^$#&-~";

struct Rewriter<'a> {
    rest: &'a str,
    out: String,
    repeats: Repeats,
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
                    self.repeats.bracket(letter);
                    continue;
                }
                other => self.out.push(other),
            }
            self.repeats.item();
        }
        Ok(self.out)
    }

    /// An operator that repeats what is before it, and what makes it lazy.
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
        self.repeats.repeat(operator, counts)
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

    /// What follows a backslash. Any punctuation may be escaped, and `\Q` escapes all up to `\E`.
    fn escape(&mut self) {
        match self.take() {
            Some('Q') => {
                let (text, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                self.out.push_str(&::regex::escape(text));
            }
            // A character by its number, or a class by its name.
            Some(letter @ ('x' | 'p' | 'P')) if self.rest.starts_with('{') => {
                let end = self.rest.find('}').map_or(self.rest.len(), |end| end + 1);
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                self.out.extend(['\\', letter]);
                self.out.push_str(name);
            }
            // In brackets of their own they are the same inside of a class and outside.
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

    /// A class, after its bracket. A dash between two items is a range, elsewhere it is itself, as is a bracket that does not open a
    /// class by name; `&&`, `--` and `~~` are nothing special.
    fn class(&mut self) {
        self.out.push('[');
        if self.take_if("^") {
            self.out.push('^');
        }
        // Whether an item came before that a range may begin with.
        let (mut is_first, mut may_range) = (true, false);
        while let Some(letter) = self.take() {
            match letter {
                ']' if !is_first => return self.out.push(']'),
                '[' if self.named_class() => may_range = false,
                '-' if may_range && !self.rest.starts_with(']') => {
                    self.out.push('-');
                    if let Some(end) = self.take() {
                        self.item(end);
                    }
                    may_range = false;
                }
                other => {
                    // No range begins with a class of its own.
                    may_range = other != '\\' || !self.rest.starts_with(['d', 'D', 's', 'S', 'w', 'W', 'p', 'P']);
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

/// How often what has been read is repeated: Go neither repeats a repetition, nor anything more than a thousand times.
#[derive(Default)]
struct Repeats {
    /// For each open group, and for the pattern itself, how often at most anything in it is repeated.
    groups: Vec<u64>,
    whole: u64,
    /// How often anything in the last item is repeated.
    last: u64,
    /// The operator that was read last, if nothing came after it.
    operator: Option<String>,
}

impl Repeats {
    const MOST: u64 = 1000;

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

    /// An operator, and the counts in it.
    fn repeat(&mut self, operator: String, counts: Option<&str>) -> Result<(), String> {
        if let Some(before) = self.operator.take() {
            return Err(format!("invalid nested repetition operator: `{before}{operator}`"));
        }
        if let Some(counts) = counts {
            let shown = operator.trim_end_matches('?');
            let invalid = || format!("invalid repeat count: `{shown}`");
            let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
            let number =
                |text: &str| text.parse().ok().filter(|count: &u64| *count <= Repeats::MOST).ok_or_else(invalid);
            let least = number(least)?;
            let most = if most.is_empty() { least } else { number(most)? };
            self.last = self.last.max(1) * most.max(1);
            if self.last > Repeats::MOST && (least > 1 || most > 1) {
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

/// Whether what follows a brace makes a repetition of it: `3}`, `3,}` or `3,5}`.
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
    fn what_go_takes_is_taken() {
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
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(matches.iter().all(|text| regex.is_match(text)), "{pattern} matches {matches:?}");
            assert!(!others.iter().any(|text| regex.is_match(text)), "{pattern} does not match {others:?}");
        }
        for pattern in ["(", "[a", r"\", "[b-a]", "(?z)"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn repetitions_are_repeated_no_further_than_go_does() {
        for pattern in
            ["a*?b", "(a+)+", "a{1000}", "(a{10}){100}", "a{2,1000}?", "[*+]+", r"\*+", "(?:a|b?)*", "(?i)a+"]
        {
            assert!(compile(pattern).is_ok(), "{pattern}: {:?}", compile(pattern).err());
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
            assert_eq!(compile(pattern).err().as_deref(), Some(why), "{pattern}");
        }
    }
}
