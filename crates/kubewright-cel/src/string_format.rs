//! String formats of OpenAPI schemas (Go: `strfmt`).
//!
//! Shared by the `format` library of CEL and by schema validation.

use std::net::{Ipv4Addr, Ipv6Addr};

use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{ByteString, Duration, Time};

use crate::go_regex::GoRegex;

/// Whether a string is valid in a format. Unknown formats accept every string.
pub fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<Time>().is_ok(),
        "date" => text.len() == 10 && format!("{text}T00:00:00Z").parse::<Time>().is_ok(),
        "duration" => parse_duration(text).is_some(),
        "byte" => ByteString::from_base64(text.as_bytes()).is_ok(),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => dns1123_subdomain(&text.to_lowercase()).is_empty(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "hexcolor" => matches("(?i)^#?(?:[0-9a-f]{3}|[0-9a-f]{6})$", text),
        _ => true,
    }
}

/// Parses a duration into nanoseconds.
///
/// Accepts Go's syntax, and numbers with abbreviated or written-out units such as `1 week`.
pub fn parse_duration(text: &str) -> Option<i64> {
    // The last form of a unit also matches as a prefix: `hours`.
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    if let Ok(duration) = text.parse::<Duration>() {
        return Some(duration.as_nanos());
    }
    let (mut rest, mut sum) = (text, None);
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[begin..];
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let after = after.trim_start();
        let (unit, after) =
            after.split_at(after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len()));
        rest = after;
        let unit = unit.to_lowercase();
        let matches_unit =
            |forms: &[&str]| forms.contains(&&*unit) || forms.last().is_some_and(|form| unit.starts_with(form));
        if let Some((_, nanos)) = UNITS.iter().find(|(forms, _)| matches_unit(forms)) {
            let nanos = number.parse::<i64>().ok()?.checked_mul(*nanos)?;
            sum = Some(sum.unwrap_or(0_i64).checked_add(nanos)?);
        }
    }
    sum
}

/// Whether a string is an absolute path, or a scheme with a non-empty rest.
fn is_uri(text: &str) -> bool {
    let is_printable = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut letters = scheme.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    is_printable && (text.starts_with('/') || has_scheme)
}

fn is_email(text: &str) -> bool {
    let Some((user, domain)) = text.rsplit_once('@') else { return false };
    !user.is_empty() && !domain.is_empty() && !text.contains(|c: char| c.is_whitespace() || "<>,;".contains(c))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let limit = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}

/// Whether a string is six or eight pairs of hexadecimal digits, separated by colons or dashes.
fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let pairs: Vec<&str> = text.split(separator).collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(pairs.len(), 6 | 8) && pairs.iter().all(is_pair)
}

/// Whether a string is a UUID, of the version that the format names. Dashes are optional.
fn is_uuid(format: &str, text: &str) -> bool {
    let (version, variant) = match format {
        "uuid3" => ("3", "[0-9a-f]"),
        "uuid4" => ("4", "[89ab]"),
        "uuid5" => ("5", "[89ab]"),
        _ => ("[0-9a-f]", "[0-9a-f]"),
    };
    let groups = format!("{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}");
    matches(&format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{groups}-?[0-9a-f]{{12}}$"), text)
}

/// Whether a string matches a pattern of this file, which compiles once.
fn matches(pattern: &str, text: &str) -> bool {
    GoRegex::compile(pattern).expect("tested below").is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_checked_and_others_are_not() {
        for (format, good, bad) in [
            ("date-time", "2024-05-01T10:00:00Z", "noon"),
            ("date", "2024-05-01", "2024-13-01"),
            ("duration", "1h30m", "soon"),
            ("byte", "aGk=", "?"),
            ("uri", "https://example.com/x", "not a uri"),
            ("email", "a@example.com", "example.com"),
            ("hostname", "Example.com", "a b"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1A:2b:3c:4d:5e", "00:1A"),
            ("uuid", "0b2f8c1e-5f0c-4c7e-9a53-2d1f0e6b7a89", "0b2f8c1e"),
            ("uuid", "0B2F8C1E5F0C-4c7e9a532d1f0e6b7a89", "0b2f8c1e--5f0c4c7e9a532d1f0e6b7a89"),
            ("uuid3", "0b2f8c1e-5f0c-3c7e-1a53-2d1f0e6b7a89", "0b2f8c1e-5f0c-4c7e-9a53-2d1f0e6b7a89"),
            ("uuid4", "0b2f8c1e-5f0c-4c7e-9a53-2d1f0e6b7a89", "0b2f8c1e-5f0c-3c7e-9a53-2d1f0e6b7a89"),
            ("uuid5", "0b2f8c1e-5f0c-5c7e-ba53-2d1f0e6b7a89", "0b2f8c1e-5f0c-5c7e-1a53-2d1f0e6b7a89"),
            ("hexcolor", "#ffaa00", "red"),
        ] {
            assert!(is_valid(format, good), "{format} {good}");
            assert!(!is_valid(format, bad), "{format} {bad}");
        }
        assert!(is_valid("sentence", "anything"));
    }
}
