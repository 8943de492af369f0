//! The one line of flat JSON that a contestant prints.

use std::collections::HashMap;

/// The numbers and strings of an object; nested values are skipped.
#[derive(Debug, Default)]
pub struct Line {
    numbers: HashMap<String, f64>,
    strings: HashMap<String, String>,
}

impl Line {
    /// Parses a line. Escapes are not supported, because contestants write none.
    pub fn parse(text: &str) -> Option<Line> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let mut line = Line::default();
        while let Some((_, after)) = rest.split_once('"') {
            let (name, after) = after.split_once('"')?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            if let Some(string) = value.strip_prefix('"') {
                let (string, after) = string.split_once('"')?;
                line.strings.insert(name.to_owned(), string.to_owned());
                rest = after;
            } else {
                let end = value.find([',', '}']).unwrap_or(value.len());
                if let Ok(number) = value[..end].trim().parse() {
                    line.numbers.insert(name.to_owned(), number);
                }
                rest = &value[end..];
            }
        }
        Some(line)
    }

    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.numbers.get(name).copied().ok_or_else(|| format!("the contestant printed no {name}"))
    }

    pub fn string(&self, name: &str) -> &str {
        self.strings.get(name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_objects_with_and_without_spaces() {
        let line = Line::parse(r#"{"peer":"client-go","ops": 100, "cpu_s":1.5e-3,"last": "10, 11"}"#).expect("a line");
        assert_eq!(line.string("peer"), "client-go");
        assert_eq!(line.string("last"), "10, 11");
        assert_eq!(line.number("ops"), Ok(100.0));
        assert_eq!(line.number("cpu_s"), Ok(0.0015));
        assert!(line.number("wall_s").is_err());
        assert!(Line::parse("ready").is_none());
    }
}
