//! Query parameters with percent encoding.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::meta::v1::Status;

/// Escaped in values: everything but the unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The decoded query parameters of a request.
///
/// Parameters that cannot be decoded are skipped, and the first value of a repeated name wins, as
/// in Go.
///
/// ```
/// use kubewright_core::options::QueryParameters;
/// let query = QueryParameters::parse("labelSelector=app%3Dweb,tier+in+(a)&watch");
/// assert_eq!(query.get("labelSelector"), Some("app=web,tier in (a)"));
/// assert!(query.flag("watch").unwrap_or_default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryParameters {
    parameters: Vec<(String, String)>,
}

impl QueryParameters {
    /// Parses the part of a URL after the question mark.
    #[inline]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let parameters = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        });
        QueryParameters { parameters: parameters.collect() }
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

    /// A boolean parameter: false for `false` and `0`, otherwise true; `None` if absent.
    #[inline]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// An integer parameter.
    ///
    /// # Errors
    /// A bad request if it is not an integer.
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
            let text = crate::names::quote::Quoted(text);
            Box::new(Status::bad_request(format!("strconv.ParseInt: parsing {text}: {problem}")))
        })
    }

    /// A parameter; an empty value counts as absent.
    #[inline]
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// Appends a parameter to a query, or to a URL that ends with a question mark.
#[inline]
pub(super) fn append(query: &mut String, name: &str, value: &dyn Display) {
    if !query.is_empty() && !query.ends_with(['?', '&']) {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    query.extend(utf8_percent_encode(&value.to_string(), ESCAPED));
}

/// Decodes a name or value; `None` if an escape is malformed.
#[inline]
fn unescape(text: &str) -> Option<String> {
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let text = text.replace('+', " ");
    let is_well_formed = text.split('%').skip(1).all(is_escape);
    is_well_formed.then(|| percent_decode_str(&text).decode_utf8_lossy().into_owned())
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
    fn undecodable_parameters_are_skipped() {
        let query = QueryParameters::parse("a=%zz&b=1&c=%4&b=2&&d;e=1&f");
        assert_eq!((query.get("a"), query.get("c"), query.get("d;e"), query.get("f")), (None, None, None, Some("")));
        assert_eq!(query.all("b").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn only_absence_false_and_zero_are_not_true() {
        let query = QueryParameters::parse("a=true&b=False&c=0&d&e=1&f=no");
        let flags = ["a", "b", "c", "d", "e", "f", "g"].map(|name| query.flag(name));
        assert_eq!(flags, [Some(true), Some(false), Some(false), Some(true), Some(true), Some(true), None]);
    }

    #[test]
    fn numbers_are_whole() {
        let query = QueryParameters::parse("a=5&b=x&c=99999999999999999999&d=");
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
            let query = QueryParameters::parse(&query);
            prop_assert_eq!(query.all("v").collect::<Vec<_>>(), values);
        }

        #[test]
        fn no_query_causes_a_panic(text in "[%a&=+;é0-9]{0,20}") {
            QueryParameters::parse(&text);
        }
    }
}
