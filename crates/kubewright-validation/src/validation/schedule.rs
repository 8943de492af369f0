//! Validates cron schedules and time zones.

use std::path::Path;

use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;

/// A cron field: its minimum, its maximum, and names for its values from the minimum on.
const FIELDS: [(i64, i64, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Returns the problem of a schedule.
pub(super) fn complaint(schedule: &str) -> Option<String> {
    let has_zone = schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=");
    if has_zone {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if schedule.starts_with('@') {
        let is_known = WORDS.contains(&schedule) || schedule.strip_prefix("@every ").is_some_and(is_duration);
        return (!is_known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.into_iter().zip(FIELDS).find_map(|(field, (least, most, names))| {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.find_map(|range| self::range(range, least, most, names).err())
    })
}

/// The time zone database of the system.
const ZONES: &str = "/usr/share/zoneinfo";

/// Validates a time zone. Without a database on this system, every well-formed name is accepted.
pub(super) fn zone(field: &str, zone: &str) -> Option<StatusCause> {
    let is_byte = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_' | b'+');
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && part.bytes().all(is_byte)
            && !part.starts_with('-')
            && part != "."
            && part != ".."
    };
    let unknown = format!("unknown time zone {zone}");
    let why = if zone.is_empty() {
        "timeZone must be nil or non-empty string"
    } else if !zone.split('/').all(is_part) {
        &unknown
    } else if zone.eq_ignore_ascii_case("Local") {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    } else if zone != "UTC" && Path::new(ZONES).is_dir() && !Path::new(ZONES).join(zone).is_file() {
        &unknown
    } else {
        return None;
    };
    Some(StatusCause::invalid(field, quoted(zone), why))
}

/// Validates `*`, `n` or `n-m`, with an optional `/step`.
fn range(text: &str, least: i64, most: i64, names: &[&str]) -> Result<(), String> {
    let (bounds, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [bounds] => (bounds, None),
        [bounds, step] => (bounds, Some(step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let parse = |text: &str| match names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(position) => Ok(least + i64::try_from(position).unwrap_or_default()),
        None => number(text),
    };
    let (start, mut end) = match bounds.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?", ..] => (least, most),
        [one] => {
            let start = parse(one)?;
            (start, start)
        }
        [first, last] => (parse(first)?, parse(last)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match step {
        None => 1,
        Some(step) => {
            // A single number with a step extends to the maximum.
            if !bounds.contains('-') {
                end = most;
            }
            number(step)?
        }
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

/// Whether this is a Go duration such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = ["ms", "us", "ns", "h", "m", "s"].into_iter().find_map(|unit| digits.strip_prefix(unit));
        match unit {
            Some(after) if digits.len() < rest.len() => rest = after,
            _ => return false,
        }
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        for fine in
            ["*/5 * * * *", "0 0 1,15 * sun-fri", "5/10 ? * JAN-mar *", "@hourly", "@every 1h30m", "0-30/2 1 * * 6"]
        {
            assert_eq!(complaint(fine), None, "{fine}");
        }
        for (schedule, why) in [
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
            ("TZ=UTC * * * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        ] {
            assert_eq!(complaint(schedule).as_deref(), Some(why), "{schedule}");
        }
    }
}
