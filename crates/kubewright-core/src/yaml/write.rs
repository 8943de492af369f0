//! Writes trees as YAML in block style with sorted keys, as Go does.

use crate::Value;

/// Appends a document.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => mapping(value, 0, out),
        Value::Array(items) if !items.is_empty() => sequence(value, 0, out),
        scalar => {
            inline(scalar, 0, out);
            out.push('\n');
        }
    }
}

fn mapping(value: &Value, indent: usize, out: &mut String) {
    let Value::Object(entries) = value else { return };
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            pad(indent, out);
        }
        text(key, indent, out);
        out.push(':');
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                out.push('\n');
                pad(indent + 2, out);
                mapping(value, indent + 2, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(indent, out);
                sequence(value, indent, out);
            }
            scalar => {
                out.push(' ');
                inline(scalar, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn sequence(value: &Value, indent: usize, out: &mut String) {
    let Value::Array(items) = value else { return };
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(entries) if !entries.is_empty() => mapping(item, indent + 2, out),
            Value::Array(items) if !items.is_empty() => sequence(item, indent + 2, out),
            scalar => {
                inline(scalar, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn inline(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(string) => text(string, indent, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        other => out.push_str(&other.to_string()),
    }
}

fn text(text: &str, indent: usize, out: &mut String) {
    let is_block = text.contains('\n') && text.chars().all(|c| c == '\n' || (c >= ' ' && c != '\u{7f}'));
    if is_block && !text.starts_with([' ', '\n']) {
        out.push_str(if text.ends_with("\n\n") {
            "|+"
        } else if text.ends_with('\n') {
            "|"
        } else {
            "|-"
        });
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            out.push('\n');
            if !line.is_empty() {
                pad(indent, out);
                out.push_str(line);
            }
        }
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// Whether a string needs no quotes.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let starts_well = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let is_safe = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./ ():,=+@%\"'".contains(c));
    let ends_well = !text.ends_with([' ', ':']) && !text.contains(": ") && !text.contains(" #");
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
    starts_well && is_safe && ends_well && !WORDS.contains(&&*text.to_ascii_lowercase())
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn written_yaml_parses_back() {
        let json = r#"{"a":{"b":[1,"2",true,{"c":[],"d":{}},[["x"]]]},"k":"two\nlines\n","l":"x\n\n","m":" y\n","n":"no",
            "o":"a: b","p":"","q":null,"r":"- x","s":1.5,"t":"2001-01-01T00:00:00Z","u":"häß\u0001"}"#;
        let value: Value = json.parse().expect("valid JSON");
        let mut out = String::new();
        write(&value, &mut out);
        assert_eq!(yaml::parse(&out).expect("we wrote it").value, value, "{out}");
    }
}
