//! Query parameters: written with percent escapes, read without them.

use std::fmt::{self, Display, Write};

use crate::meta::v1::Status;

/// The query parameters of a request, unescaped.
///
/// What cannot be unescaped is left out, and of a name that occurs twice the first value counts, as in Go.
///
/// ```
/// use kubewright_core::options::Query;
/// let query = Query::parse("labelSelector=app%3Dweb,tier+in+(a)&watch");
/// assert_eq!(query.get("labelSelector"), Some("app=web,tier in (a)"));
/// assert!(query.flag("watch").unwrap_or_default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    parameters: Vec<(String, String)>,
}

impl Query {
    /// Reads what follows the question mark of a URL.
    #[inline]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let parameters = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        });
        Query { parameters: parameters.collect() }
    }

    /// The first value of a parameter.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a parameter.
    #[inline]
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false: true unless it is absent, `false` or `0`; `None` where absent.
    #[inline]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A parameter that is a whole number.
    ///
    /// # Errors
    /// A bad request where it is something else.
    #[inline]
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Box<Status>> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let problem = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let text = crate::quote::Quoted(text);
            Box::new(Status::bad_request(format!("strconv.ParseInt: parsing {text}: {problem}")))
        })
    }

    /// A parameter whose empty value is none.
    #[inline]
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// Adds a parameter to a query, or to a URL that ends with a question mark.
#[inline]
pub(super) fn append(query: &mut String, name: &str, value: &dyn Display) {
    if !query.is_empty() && !query.ends_with(['?', '&']) {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    write!(Escaper(query), "{value}").expect("writing to a string cannot fail");
}

struct Escaper<'a>(&'a mut String);

impl Write for Escaper<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => self.0.push(byte.into()),
                byte => write!(self.0, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[inline]
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_escaped() {
        let mut url = "/api/v1/pods?".to_owned();
        append(&mut url, "labelSelector", &"a in (b,ü)");
        append(&mut url, "limit", &5);
        assert_eq!(url, "/api/v1/pods?labelSelector=a%20in%20%28b%2C%C3%BC%29&limit=5");
    }

    #[test]
    fn what_cannot_be_unescaped_is_left_out() {
        let query = Query::parse("a=%zz&b=1&c=%4&b=2&&d;e=1&f");
        assert_eq!((query.get("a"), query.get("c"), query.get("d;e"), query.get("f")), (None, None, None, Some("")));
        assert_eq!(query.all("b").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn only_absence_false_and_zero_are_not_true() {
        let query = Query::parse("a=true&b=False&c=0&d&e=1&f=no");
        let flags = ["a", "b", "c", "d", "e", "f", "g"].map(|name| query.flag(name));
        assert_eq!(flags, [Some(true), Some(false), Some(false), Some(true), Some(true), Some(true), None]);
    }

    #[test]
    fn numbers_are_whole() {
        let query = Query::parse("a=5&b=x&c=99999999999999999999&d=");
        assert_eq!(query.integer("a"), Ok(Some(5)));
        assert_eq!(query.integer("z"), Ok(None));
        let message = |name| query.integer(name).unwrap_err().to_string();
        assert_eq!(message("b"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(message("c"), "strconv.ParseInt: parsing \"99999999999999999999\": value out of range");
        assert_eq!(message("d"), "strconv.ParseInt: parsing \"\": invalid syntax");
    }

    proptest! {
        #[test]
        fn writing_and_reading_gives_values_back(values in proptest::collection::vec(any::<String>(), 1..4)) {
            let mut query = String::new();
            for value in &values {
                append(&mut query, "v", &value);
            }
            prop_assert!(query.is_ascii());
            let query = Query::parse(&query);
            prop_assert_eq!(query.all("v").collect::<Vec<_>>(), values);
        }

        #[test]
        fn no_text_makes_reading_panic(text in "[%a&=+;é0-9]{0,20}") {
            Query::parse(&text);
        }
    }
}
