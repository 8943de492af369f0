//! Formats of texts that the server checks. Others say something to people only.

use std::net::{Ipv4Addr, Ipv6Addr};

use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{ByteString, Duration, Time};

/// Whether a text has a format; every text has one that is not known.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<Time>().is_ok(),
        "date" => text.len() == 10 && format!("{text}T00:00:00Z").parse::<Time>().is_ok(),
        "duration" => is_duration(text),
        "byte" => ByteString::from_base64(text.as_bytes()).is_ok(),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => dns1123_subdomain(&text.to_lowercase()).is_empty(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        _ => true,
    }
}

/// Whether a number is in the range of its type and format.
pub(super) fn fits_number(ty: &str, format: &str, number: f64) -> bool {
    let is_within = |least: f64, most: f64| number.fract() == 0.0 && (least..=most).contains(&number);
    match (ty, format) {
        ("integer", "int32") => is_within(i32::MIN.into(), i32::MAX.into()),
        ("integer", "uint32") => is_within(0.0, u32::MAX.into()),
        ("integer", "uint64") => is_within(0.0, u64::MAX as f64),
        ("integer", _) => is_within(i64::MIN as f64, i64::MAX as f64),
        ("number", "float" | "float32") => number.abs() <= f32::MAX.into(),
        _ => true,
    }
}

/// A duration of Go, or a number with a unit that may be a whole word: `1 week`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["d", "day", "days", "w", "week", "weeks", "hours"];
    let number = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.parse::<Duration>().is_ok() || (number > 0 && UNITS.contains(&text[number..].trim_start()))
}

/// A scheme with something behind it, or a path from the root.
fn is_uri(text: &str) -> bool {
    let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut letters = scheme.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    is_plain && (text.starts_with('/') || has_scheme)
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

/// Six or eight pairs of digits between colons or dashes.
fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let pairs: Vec<&str> = text.split(separator).collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(pairs.len(), 6 | 8) && pairs.iter().all(is_pair)
}

fn is_uuid(format: &str, text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let has_dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
    let is_version = format.strip_prefix("uuid").is_none_or(|version| match version.as_bytes() {
        [version] => digits.get(12) == Some(version),
        _ => true,
    });
    digits.len() == 32 && (has_dashes || text.len() == 32) && digits.iter().all(u8::is_ascii_hexdigit) && is_version
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
            ("uuid4", "0b2f8c1e-5f0c-4c7e-9a53-2d1f0e6b7a89", "0b2f8c1e-5f0c-3c7e-9a53-2d1f0e6b7a89"),
            ("hexcolor", "#ffaa00", "red"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("sentence", "anything"));
    }
}
