//! Commands that only work on text.

use std::time::Duration;

use kubewright_core::Time;

use crate::files::File;

/// The output of `echo`, with its flags `-n` and `-e`.
pub(super) fn echo(words: &[&str]) -> String {
    let is_flag =
        |word: &&&str| word.len() > 1 && word.starts_with('-') && word[1..].chars().all(|c| "neE".contains(c));
    let flags = words.iter().take_while(is_flag).count();
    let has = |flag: char| words[..flags].iter().any(|word| word.contains(flag));
    let mut text = words[flags..].join(" ");
    if has('e') {
        text = unescape(&text);
    }
    if !has('n') {
        text.push('\n');
    }
    text
}

/// The output of `printf`. The format is repeated until its arguments are used up.
pub(super) fn printf(words: &[&str]) -> String {
    let Some((format, mut rest)) = words.split_first() else { return String::new() };
    let format = unescape(format);
    let mut text = String::new();
    loop {
        let before = rest.len();
        let mut characters = format.chars().peekable();
        while let Some(next) = characters.next() {
            if next != '%' {
                text.push(next);
                continue;
            }
            if characters.next_if_eq(&'%').is_some() {
                text.push('%');
                continue;
            }
            let mut flags = String::new();
            while let Some(flag) = characters.next_if(|c| c.is_ascii_digit() || matches!(c, '-' | '.')) {
                flags.push(flag);
            }
            let argument = rest.first().copied().unwrap_or_default();
            rest = rest.get(1..).unwrap_or_default();
            let shown = match characters.next() {
                Some('d' | 'i' | 'u') => argument.parse::<i64>().unwrap_or_default().to_string(),
                Some('b') => unescape(argument),
                _ => argument.to_owned(),
            };
            let width = flags.trim_start_matches('-').split('.').next().and_then(|width| width.parse().ok());
            let width: usize = width.unwrap_or(0).min(1000);
            match (flags.starts_with('-'), flags.starts_with('0')) {
                (true, _) => text.push_str(&format!("{shown:<width$}")),
                (_, true) => text.push_str(&format!("{shown:0>width$}")),
                _ => text.push_str(&format!("{shown:>width$}")),
            }
        }
        if rest.is_empty() || rest.len() == before || text.len() > 1 << 20 {
            return text;
        }
    }
}

/// Replaces `\n`, `\t` and others.
fn unescape(text: &str) -> String {
    let (mut plain, mut characters) = (String::new(), text.chars());
    while let Some(next) = characters.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('\\') => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// The time of an argument of `sleep`: a number with a unit, or `infinity`.
pub(super) fn sleep_time(text: &str) -> Option<Duration> {
    if matches!(text, "infinity" | "inf") {
        return Some(Duration::MAX);
    }
    let number = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0 && !number.starts_with('+'))?;
    Some(Duration::try_from_secs_f64(seconds * unit).unwrap_or(Duration::MAX))
}

/// The output of `date`: RFC 3339, or seconds with `+%s`.
pub(super) fn date(now: Time, words: &[&str]) -> String {
    if words.iter().any(|word| word.starts_with("+%s")) { now.as_unix().to_string() } else { now.to_string() }
}

/// A line of `ls`.
pub(super) fn listed(name: &str, file: Option<&File>, is_long: bool) -> String {
    if !is_long {
        return format!("{name}\n");
    }
    match file {
        Some(File::Regular { content, mode }) => {
            let bits: String =
                (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { b"xwr"[bit % 3] as char } else { '-' }).collect();
            format!("-{bits} 1 root root {:>9} {name}\n", content.len())
        }
        _ => format!("drwxr-xr-x 2 root root {:>9} {name}\n", 4096),
    }
}

/// A run of `head`, `tail`, `wc` or `grep`.
pub(super) struct Filter {
    kind: FilterKind,
    pub(super) files: Vec<String>,
}

enum FilterKind {
    Head(usize),
    Tail(usize),
    /// Whether lines, words and bytes are counted.
    Count([bool; 3]),
    Grep {
        pattern: String,
        is_inverted: bool,
        ignores_case: bool,
        is_quiet: bool,
        counts: bool,
    },
}

impl Filter {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn parse(name: &str, words: &[&str]) -> Result<Self, String> {
        let flags: Vec<&str> = words.iter().copied().filter(|word| word.starts_with('-') && word.len() > 1).collect();
        let mut files: Vec<String> =
            words.iter().filter(|word| !word.starts_with('-')).map(|word| (*word).to_owned()).collect();
        let has = |flag: char| flags.iter().any(|word| !word.starts_with("--") && word.contains(flag));
        let kind = match name {
            "head" | "tail" => {
                let attached =
                    flags.iter().find_map(|flag| flag.trim_start_matches('-').trim_start_matches('n').parse().ok());
                let lines = match attached {
                    Some(lines) => lines,
                    None if flags.contains(&"-n") && !files.is_empty() => {
                        let lines = files.remove(0);
                        lines.parse().map_err(|_| format!("{name}: invalid number '{lines}'"))?
                    }
                    None if flags.is_empty() => 10,
                    None => return Err(format!("{name}: unrecognized option: {}", flags.join(" "))),
                };
                if name == "head" { FilterKind::Head(lines) } else { FilterKind::Tail(lines) }
            }
            "wc" => {
                let counted = [has('l'), has('w'), has('c')];
                FilterKind::Count(if counted == [false; 3] { [true; 3] } else { counted })
            }
            _ => {
                if files.is_empty() {
                    return Err("grep: a pattern is required".to_owned());
                }
                FilterKind::Grep {
                    pattern: files.remove(0),
                    is_inverted: has('v'),
                    ignores_case: has('i'),
                    is_quiet: has('q'),
                    counts: has('c'),
                }
            }
        };
        Ok(Filter { kind, files })
    }

    /// The output and the status.
    pub(super) fn apply(&self, content: &[u8]) -> (Vec<u8>, i32) {
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        match &self.kind {
            FilterKind::Head(count) => (lines[..lines.len().min(*count)].concat(), 0),
            FilterKind::Tail(count) => (lines[lines.len().saturating_sub(*count)..].concat(), 0),
            FilterKind::Count(counted) => {
                let words = content.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
                let newlines = content.iter().filter(|byte| **byte == b'\n').count();
                let numbers = [newlines, words, content.len()].into_iter().zip(counted);
                let numbers: Vec<String> =
                    numbers.filter(|(_, counted)| **counted).map(|(number, _)| number.to_string()).collect();
                (format!("{}\n", numbers.join(" ")).into_bytes(), 0)
            }
            FilterKind::Grep { pattern, is_inverted, ignores_case, is_quiet, counts } => {
                let pattern = pattern.as_str();
                let pattern = if *ignores_case { pattern.to_lowercase() } else { pattern.to_owned() };
                let matches = |line: &&&[u8]| {
                    let line = String::from_utf8_lossy(line);
                    let line = line.trim_end_matches('\n');
                    let line = if *ignores_case { line.to_lowercase() } else { line.to_owned() };
                    is_match(&pattern, &line) != *is_inverted
                };
                let found: Vec<&[u8]> = lines.iter().filter(matches).copied().collect();
                let status = i32::from(found.is_empty());
                match (is_quiet, counts) {
                    (true, _) => (Vec::new(), status),
                    (_, true) => (format!("{}\n", found.len()).into_bytes(), status),
                    _ => (found.concat(), status),
                }
            }
        }
    }
}

/// Whether a line contains a text, at its start after `^` and at its end before `$`.
fn is_match(pattern: &str, line: &str) -> bool {
    match (pattern.strip_prefix('^'), pattern.strip_suffix('$')) {
        (Some(start), Some(_)) => line == start.trim_end_matches('$'),
        (Some(start), None) => line.starts_with(start),
        (None, Some(end)) => line.ends_with(end),
        (None, None) => line.contains(pattern),
    }
}
