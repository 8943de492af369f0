//! In which style a text is written.

/// The styles of YAML scalars that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// A block of lines.
    Literal,
}

/// The style of a text, as in Go. `is_string` says whether a reader takes the plain text for a
/// string.
pub(super) fn style(text: &str, is_string: bool) -> ScalarStyle {
    let has_special = text.chars().any(|c| c != '\n' && !is_printable(c));
    // A space before a line break would be lost, except in double quotes.
    if has_special || text.contains(" \n") || (!text.contains('\n') && !is_string) {
        return ScalarStyle::DoubleQuoted;
    }
    if text.contains('\n') {
        return if text.ends_with(' ') { ScalarStyle::DoubleQuoted } else { ScalarStyle::Literal };
    }
    if text.starts_with(' ') || text.ends_with(' ') || has_indicators(text) {
        return ScalarStyle::SingleQuoted;
    }
    ScalarStyle::Plain
}

/// Whether a part of the text would mean something else without quotes.
fn has_indicators(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let next = text[at + c.len_utf8()..].chars().next();
        let is_last_of_word = matches!(next, None | Some(' '));
        let is_indicator = match c {
            '#' => previous == ' ',
            ':' => is_last_of_word,
            '?' | '-' => at == 0 && is_last_of_word,
            _ => at == 0 && ",[]{}&*!|>'\"%@`".contains(c),
        };
        if is_indicator {
            return true;
        }
        previous = c;
    }
    false
}

/// Whether Go writes the character as it is. Line breaks and tabs are not among these.
pub(super) fn is_printable(c: char) -> bool {
    let is_break = matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    matches!(c, ' '..='~' | '\u{a0}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}') && !is_break
}

/// Whether YAML 1.1 reads the text as a number of base 60, such as `1:20`.
pub(super) fn is_base_60(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut parts = whole.split(':');
    let is_number = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_digit()) && part.chars().all(|c| c.is_ascii_digit() || c == '_')
    };
    let is_part = |part: &str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    whole.contains(':')
        && parts.next().is_some_and(is_number)
        && parts.all(is_part)
        && fraction.chars().all(|c| c.is_ascii_digit() || c == '_')
}

/// Whether YAML reads the text as a date or time.
pub(super) fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-').filter(|(year, _)| year.len() == 4) else { return false };
    let (date, time) = match rest.find(['T', 't', ' ']) {
        Some(at) => (&rest[..at], Some((rest.as_bytes()[at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let (Some(year), Some((month, day))) = (number(year, 4, 9999), date.split_once('-')) else { return false };
    let Some(month) = number(month, 2, 12).filter(|month| *month > 0) else { return false };
    let is_day = number(day, 2, days_in(year, month)).is_some_and(|day| day > 0);
    is_day
        && match time {
            None => true,
            Some((b' ', clock)) => is_clock(clock),
            Some((_, time)) => match time.find(['Z', '+', '-']) {
                Some(at) => is_clock(&time[..at]) && is_zone(&time[at..]),
                None => false,
            },
        }
}

/// Whether the text is `h:m:s` with an optional fraction.
fn is_clock(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let [hour, minute, second] = parts[..] else { return false };
    let in_range = number(hour, 2, 23).and(number(minute, 2, 59)).and(number(second, 2, 59));
    is_fraction && in_range.is_some()
}

/// Whether the text is `Z` or an offset such as `+02:00`.
fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else { return text == "Z" };
    let parts = offset.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2);
    parts.is_some_and(|(hour, minute)| number(hour, 2, 24).and(number(minute, 2, 60)).is_some())
}

fn number(text: &str, digits: usize, max: u32) -> Option<u32> {
    let is_number = (1..=digits).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|number| *number <= max)
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_recognized() {
        for time in ["2020-01-01", "2020-1-1", "2024-02-29", "2020-01-01T00:00:00Z", "2020-01-01 1:2:3.5"] {
            assert!(is_timestamp(time), "{time}");
        }
        let others = [
            "2020-13-01",
            "2023-02-29",
            "20-01-01",
            "2020-01",
            "2020-01-01T00:00:00",
            "2020-01-01x",
            "2020-01-01T25:00:00Z",
        ];
        assert!(others.iter().all(|text| !is_timestamp(text)));
        assert!(is_timestamp("2020-01-01t10:20:30.123+02:00"));
    }

    #[test]
    fn numbers_of_base_60_are_recognized() {
        for number in ["1:20", "+1:2:3", "1_0:59.5_"] {
            assert!(is_base_60(number), "{number}");
        }
        for text in ["1:60", "a:20", "1", ":1", "1:", "1:2a", ""] {
            assert!(!is_base_60(text), "{text}");
        }
    }
}
