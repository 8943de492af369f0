//! Texts made by a pattern, and formats that texts can have.

use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};

use super::Evaluated;
use super::conversion::string;
use super::strings::quote;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

/// Digits behind the point where none are asked for.
const PRECISION: usize = 6;

/// Formats that texts can be checked for.
const NAMED: [&str; 14] = [
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
    "named",
];

/// A format by its name: `format.uri()`, or `format.named("uri")`, which may be none.
pub(super) fn named(function: &str, arguments: &[Value]) -> Evaluated {
    let known = |name: &str| NAMED.into_iter().find(|known| *known == name && name != "named").map(Value::Format);
    match (function, arguments) {
        ("named", [Value::String(name)]) => Ok(Value::optional(known(name))),
        (name, []) => known(name).ok_or_else(EvaluationError::no_overload),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// What is wrong with a text: nothing, or some messages.
pub(super) fn validate(format: &str, text: &str) -> Evaluated {
    // A prefix may end with a dash, because something follows it.
    let prefix = || text.trim_end_matches('-').to_owned() + if text.ends_with('-') { "a" } else { "" };
    let complaints = match format {
        "dns1123Label" => dns1123_label(text),
        "dns1123Subdomain" => dns1123_subdomain(text),
        "dns1123LabelPrefix" => dns1123_label(&prefix()),
        "dns1123SubdomainPrefix" => dns1123_subdomain(&prefix()),
        "dns1035Label" | "dns1035LabelPrefix" => {
            let text = if format == "dns1035Label" { text.to_owned() } else { prefix() };
            let mut complaints = dns1123_label(&text);
            if complaints.is_empty() && text.starts_with(|letter: char| letter.is_ascii_digit()) {
                complaints.push("a DNS-1035 label must start with an alphabetic character".to_owned());
            }
            complaints
        }
        "qualifiedName" => qualified_name(text),
        "labelValue" => label_value(text),
        "date" | "datetime" | "uri" | "uuid" | "byte" => {
            let schema_format = if format == "datetime" { "date-time" } else { format };
            match crate::schema::has_format(schema_format, text) {
                true => Vec::new(),
                false => vec![format!("does not match the format {format}")],
            }
        }
        _ => Vec::new(),
    };
    let list: Vec<Value> = complaints.into_iter().map(Value::from).collect();
    Ok(Value::optional((!list.is_empty()).then(|| Value::list(list))))
}

/// Fills the places of a pattern with values.
pub(super) fn format(pattern: &str, values: &[Value]) -> Evaluated {
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
        text += &shown(verb, precision, value)?;
    }
    Ok(text.into())
}

fn shown(verb: char, precision: Option<usize>, value: &Value) -> Result<String, EvaluationError> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    // These three have no literal.
    let double = |value: &Value| match value {
        Value::Double(number) => Some(*number),
        Value::String(name) if matches!(&**name, "NaN" | "Infinity" | "-Infinity") => name.parse().ok(),
        _ => None,
    };
    let signed = |number: i128, digits: String| if number < 0 { format!("-{digits}") } else { digits };
    let wrong = || EvaluationError::new(format!("could not convert argument to %{verb}: {}", value.type_name()));
    Ok(match (verb, value) {
        ('s', value) => show(value),
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

/// A number as it is written in America, where thousands are set apart.
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

/// A number with its power of ten. However many digits are asked for, there are six of them.
fn scientific(number: f64) -> String {
    const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{number:.PRECISION$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return fixed(number, PRECISION) };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let exponent = format!("{exponent:0>2}");
    let raised = exponent.chars().filter_map(|digit| SUPERSCRIPT.get(digit.to_digit(10)? as usize));
    format!("{digits}×10{sign}{}", raised.collect::<String>())
}

/// A value as people read it.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::List(items, _) => format!("[{}]", items.iter().map(show_literal).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entry =
                |(key, value)| format!("{}:{}", show_literal(&Value::from(Clone::clone(key))), show_literal(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Type(name) | Value::Format(name) => (*name).to_owned(),
        Value::Quantity(amount) => amount.to_string(),
        value => string(value).unwrap_or_else(|_| value.type_name().to_owned()),
    }
}

/// A value inside of another, as an expression would have it.
fn show_literal(value: &Value) -> String {
    let quoted = || quote(&show(value));
    match value {
        Value::String(_) => quoted(),
        Value::Bytes(_) => format!("b{}", quoted()),
        Value::Timestamp(_) => format!("timestamp({})", quoted()),
        Value::Duration(_) => format!("duration({})", quoted()),
        Value::Double(number) if number.is_finite() => format!("{number:.PRECISION$}"),
        Value::Double(_) => quoted(),
        other => show(other),
    }
}
