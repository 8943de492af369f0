//! String formatting with `%` clauses, and the library of named formats.

use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};

use super::conversion::string;
use super::strings::quote;
use crate::error::EvaluationError;
use crate::string_format;
use crate::value::{EvaluationResult, Value};

/// Default number of fractional digits.
const PRECISION: usize = 6;

/// Names of formats that strings can be validated against.
const NAMED_FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// Finds a format: `format.uri()`, or `format.named("uri")`, which returns an optional.
pub(super) fn named(function: &str, arguments: &[Value]) -> EvaluationResult {
    let known = |name: &str| NAMED_FORMATS.into_iter().find(|known| *known == name).map(Value::Format);
    match (function, arguments) {
        ("named", [Value::String(name)]) => Ok(Value::optional(known(name))),
        (name, []) => known(name).ok_or_else(EvaluationError::no_overload),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Validates a string: an optional list of error messages, absent if there are none.
pub(super) fn validate(format: &str, text: &str) -> EvaluationResult {
    // A prefix may end with a dash, because a generated suffix follows.
    let prefix = || text.trim_end_matches('-').to_owned() + if text.ends_with('-') { "a" } else { "" };
    let errors = match format {
        "dns1123Label" => dns1123_label(text),
        "dns1123Subdomain" => dns1123_subdomain(text),
        "dns1123LabelPrefix" => dns1123_label(&prefix()),
        "dns1123SubdomainPrefix" => dns1123_subdomain(&prefix()),
        "dns1035Label" | "dns1035LabelPrefix" => {
            let text = if format == "dns1035Label" { text.to_owned() } else { prefix() };
            let mut errors = dns1123_label(&text);
            if errors.is_empty() && text.starts_with(|letter: char| letter.is_ascii_digit()) {
                errors.push("a DNS-1035 label must start with an alphabetic character".to_owned());
            }
            errors
        }
        "qualifiedName" => qualified_name(text),
        "labelValue" => label_value(text),
        "date" | "datetime" | "uri" | "uuid" | "byte" => {
            let schema_format = if format == "datetime" { "date-time" } else { format };
            if string_format::is_valid(schema_format, text) {
                Vec::new()
            } else {
                vec![format!("does not match the format {format}")]
            }
        }
        _ => Vec::new(),
    };
    let list: Vec<Value> = errors.into_iter().map(Value::from).collect();
    Ok(Value::optional((!list.is_empty()).then(|| Value::list(list))))
}

/// `string.format(list)`: replaces each `%` clause with a value.
pub(super) fn format(pattern: &str, values: &[Value]) -> EvaluationResult {
    let (mut text, mut values) = (String::new(), values.iter());
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut precision = None;
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok().filter(|precision| *precision <= 100);
        }
        let verb = letters.next().ok_or_else(|| EvaluationError::new("unexpected end of string"))?;
        if verb == '%' {
            text.push('%');
            continue;
        }
        let value = values.next().ok_or_else(|| EvaluationError::new("index out of range: too few arguments"))?;
        text += &format_clause(verb, precision, value)?;
    }
    Ok(text.into())
}

fn format_clause(verb: char, precision: Option<usize>, value: &Value) -> Result<String, EvaluationError> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    // These doubles have no literal: they are written as strings.
    let double = |value: &Value| match value {
        Value::Double(number) => Some(*number),
        Value::String(name) if matches!(&**name, "NaN" | "Infinity" | "-Infinity") => name.parse().ok(),
        _ => None,
    };
    let signed = |number: i128, digits: String| if number < 0 { format!("-{digits}") } else { digits };
    let wrong = || EvaluationError::new(format!("could not convert argument to %{verb}: {}", value.type_name()));
    Ok(match (verb, value) {
        ('s', value) => format_string(value),
        ('d', value) => whole(value).ok_or_else(wrong)?.to_string(),
        ('f', value) => fixed(double(value).ok_or_else(wrong)?, precision.unwrap_or(PRECISION)),
        ('e', value) => scientific(double(value).ok_or_else(wrong)?),
        ('b', Value::Bool(truth)) => u8::from(*truth).to_string(),
        ('b', value) => {
            let number = whole(value).ok_or_else(wrong)?;
            signed(number, format!("{:b}", number.unsigned_abs()))
        }
        ('o', value) => {
            let number = whole(value).ok_or_else(wrong)?;
            signed(number, format!("{:o}", number.unsigned_abs()))
        }
        ('x' | 'X', value) => {
            let digits = match value {
                Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                value => {
                    let number = whole(value).ok_or_else(wrong)?;
                    signed(number, format!("{:x}", number.unsigned_abs()))
                }
            };
            if verb == 'X' { digits.to_uppercase() } else { digits }
        }
        _ => {
            let why = format!("unrecognized formatting clause {:?}", verb.to_string());
            return Err(EvaluationError::new(format!("could not parse formatting clause: {why}")));
        }
    })
}

/// Formats a double in the locale en_US, with thousands separators.
fn fixed(number: f64, precision: usize) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "∞".to_owned() } else { "-∞".to_owned() };
    }
    let digits = format!("{:.precision$}", number.abs());
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = String::from(if number.is_sign_negative() && !number.is_nan() { "-" } else { "" });
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// Formats a double in scientific notation. The precision is always six, as in cel-go.
fn scientific(number: f64) -> String {
    const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{number:.PRECISION$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return fixed(number, PRECISION) };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let exponent = format!("{exponent:0>2}");
    let raised = exponent.chars().filter_map(|digit| SUPERSCRIPT.get(digit.to_digit(10)? as usize));
    format!("{digits}×10{sign}{}", raised.collect::<String>())
}

/// Formats a value for `%s`.
fn format_string(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::List(items, _) => format!("[{}]", items.iter().map(format_literal).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entry =
                |(key, value)| format!("{}:{}", format_literal(&Value::from(Clone::clone(key))), format_literal(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Type(name) | Value::Format(name) => (*name).to_owned(),
        Value::Quantity(amount) => amount.to_string(),
        value => string(value).unwrap_or_else(|_| value.type_name().to_owned()),
    }
}

/// Formats an element of a list or a map for `%s`, as a literal.
fn format_literal(value: &Value) -> String {
    let quoted = || quote(&format_string(value));
    match value {
        Value::String(_) => quoted(),
        Value::Bytes(_) => format!("b{}", quoted()),
        Value::Timestamp(_) => format!("timestamp({})", quoted()),
        Value::Duration(_) => format!("duration({})", quoted()),
        Value::Double(number) if number.is_finite() => format!("{number:.PRECISION$}"),
        Value::Double(_) => quoted(),
        other => format_string(other),
    }
}
