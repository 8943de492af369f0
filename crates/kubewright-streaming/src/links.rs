//! Links of pages behind a proxy.
//!
//! A page that is served below the path of a proxy may link to `/other`. [`Proxied`] leads such
//! links, and redirects, through the proxy. Links to other hosts and relative links stay.

use std::borrow::Cow;

/// Elements with the attributes that hold a URL.
const URL_ATTRIBUTES: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];
/// Elements whose content is text up to their end.
const RAW_TEXT: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// Where a page comes from.
#[derive(Debug, Clone, Copy)]
pub struct Proxied<'a> {
    /// The path of the proxy, without a slash at its end.
    pub prefix: &'a str,
    /// Host and port of the server behind the proxy.
    pub backend: &'a str,
    /// Host and port that the client asked for.
    pub host: &'a str,
}

impl Proxied<'_> {
    /// A URL through the proxy. `None` if it stays as it is.
    pub fn rewrite(&self, url: &str) -> Option<String> {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => (&url[..scheme.len() + 3], Some(rest)),
            _ => ("//", url.strip_prefix("//")),
        };
        let (origin, path) = match rest {
            None => (String::new(), url),
            Some(rest) => {
                let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                if host == self.host {
                    (format!("{scheme}{host}"), path)
                } else if host == self.backend {
                    (String::new(), path)
                } else {
                    return None;
                }
            }
        };
        if !path.starts_with('/') {
            return None;
        }
        let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
        let path = match path.starts_with(self.prefix) {
            true => Cow::Borrowed(path),
            false => Cow::Owned(format!("{}{}", self.prefix, clean(path))),
        };
        Some(format!("{origin}{path}{query}"))
    }

    /// A page whose links lead through the proxy. Everything else stays, byte for byte.
    pub fn rewrite_page(&self, page: &str) -> String {
        let (mut out, mut at) = (String::with_capacity(page.len()), 0);
        while let Some(found) = page[at..].find('<').map(|found| at + found) {
            let rest = &page[found..];
            if rest.starts_with("<!--") {
                let end = rest.find("-->").map_or(page.len(), |end| found + end + 3);
                out.push_str(&page[at..end]);
                at = end;
                continue;
            }
            out.push_str(&page[at..=found]);
            at = found + 1;
            if !page[at..].starts_with(|first: char| first.is_ascii_alphabetic()) {
                continue;
            }
            let tag = Tag::parse(&page[at..]);
            self.rewrite_tag(&tag, &mut out);
            at += tag.text.len();
            if RAW_TEXT.contains(&&*tag.name) {
                let end = end_of_raw_text(&page[at..], &tag.name);
                out.push_str(&page[at..at + end]);
                at += end;
            }
        }
        out.push_str(&page[at..]);
        out
    }

    fn rewrite_tag(&self, tag: &Tag<'_>, out: &mut String) {
        let attributes =
            URL_ATTRIBUTES.iter().find(|(element, _)| *element == tag.name).map_or(&[][..], |found| found.1);
        let mut written = 0;
        for attribute in &tag.attributes {
            if !attributes.contains(&&*attribute.name) {
                continue;
            }
            let value = &tag.text[attribute.value.clone()];
            let Some(rewritten) = self.rewrite(&value.replace("&amp;", "&")) else { continue };
            out.push_str(&tag.text[written..attribute.value.start]);
            let quote = if attribute.is_quoted { "" } else { "\"" };
            let escaped = rewritten.replace('&', "&amp;").replace('"', "&#34;").replace('\'', "&#39;");
            out.push_str(&format!("{quote}{escaped}{quote}"));
            written = attribute.value.end;
        }
        out.push_str(&tag.text[written..]);
    }
}

/// A start tag, from its name to its end.
struct Tag<'a> {
    text: &'a str,
    /// In lower case.
    name: String,
    attributes: Vec<Attribute>,
}

struct Attribute {
    /// In lower case.
    name: String,
    /// Where its value is in the text.
    value: std::ops::Range<usize>,
    is_quoted: bool,
}

impl<'a> Tag<'a> {
    /// Reads a tag from the first letter of its name.
    fn parse(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let until = |from: usize, ends: &[u8]| {
            let is_end = |byte: &u8| byte.is_ascii_whitespace() || ends.contains(byte);
            bytes[from..].iter().position(is_end).map_or(bytes.len(), |length| from + length)
        };
        let skip = |from: usize, also: &[u8]| {
            let is_skipped = |byte: &u8| byte.is_ascii_whitespace() || also.contains(byte);
            bytes[from..].iter().position(|byte| !is_skipped(byte)).map_or(bytes.len(), |length| from + length)
        };
        let mut at = until(0, b"/>");
        let (name, mut attributes) = (text[..at].to_ascii_lowercase(), Vec::new());
        loop {
            at = skip(at, b"/");
            match bytes.get(at) {
                None => break,
                Some(b'>') => {
                    at += 1;
                    break;
                }
                Some(_) => {}
            }
            // A name has at least one character, which may be an equals sign.
            let end = until(at + 1, b"=/>");
            let attribute = text.get(at..end).map(str::to_ascii_lowercase).unwrap_or_default();
            at = skip(end, b"");
            if bytes.get(at) != Some(&b'=') {
                continue;
            }
            at = skip(at + 1, b"");
            let (value, is_quoted) = match bytes.get(at) {
                Some(quote @ (b'"' | b'\'')) => {
                    let length = bytes[at + 1..].iter().position(|byte| byte == quote);
                    let end = length.map_or(bytes.len(), |length| at + 1 + length);
                    (at + 1..end, true)
                }
                _ => (at..until(at, b">"), false),
            };
            at = (value.end + usize::from(is_quoted)).min(bytes.len());
            attributes.push(Attribute { name: attribute, value, is_quoted });
        }
        Tag { text: &text[..at], name, attributes }
    }
}

/// The length of the text up to the end tag of its element.
fn end_of_raw_text(text: &str, element: &str) -> usize {
    let ends = text.match_indices("</").map(|(at, _)| at);
    let is_end = |at: &usize| {
        let name = text.as_bytes()[at + 2..].get(..element.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(element.as_bytes()))
    };
    ends.into_iter().find(is_end).unwrap_or(text.len())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// An absolute path without `.`, `..` and repeated slashes. A slash at the end stays.
pub(crate) fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') { "/" } else { "" };
    if segments.is_empty() { end.to_owned() } else { format!("/{}{end}", segments.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIED: Proxied<'_> = Proxied { prefix: "/p/web/proxy", backend: "10.0.0.7:80", host: "127.0.0.1:6443" };

    #[test]
    fn urls_of_the_page_lead_through_the_proxy() {
        for (url, want) in [
            ("/a/../b/?q=/x#f", Some("/p/web/proxy/b/?q=/x#f")),
            ("/", Some("/p/web/proxy/")),
            ("/p/web/proxy/a", Some("/p/web/proxy/a")),
            ("http://10.0.0.7:80/a", Some("/p/web/proxy/a")),
            ("//10.0.0.7:80/a", Some("/p/web/proxy/a")),
            ("https://127.0.0.1:6443/a", Some("https://127.0.0.1:6443/p/web/proxy/a")),
            ("https://example.org/a", None),
            ("//example.org/a", None),
            ("a/b", None),
            ("#top", None),
            ("http://10.0.0.7:80", None),
            ("", None),
        ] {
            assert_eq!(PROXIED.rewrite(url).as_deref(), want, "{url}");
        }
    }

    #[test]
    fn only_links_of_a_page_change() {
        let page = "<!DOCTYPE html><!-- <a href=\"/no\"> --><A class=x HREF='/a?b&amp;c'>1 < 2</A><img src=/i.png alt=\"/no\">\
                    <script src=\"/s.js\">if (1</a>2) '<a href=\"/no\">'</script><p title=\"/no\"><a href=\"rel\">\
                    <form action=\"/post\"/><a href=\"/cut";
        let want = "<!DOCTYPE html><!-- <a href=\"/no\"> --><A class=x HREF='/p/web/proxy/a?b&amp;c'>1 < 2</A>\
                    <img src=\"/p/web/proxy/i.png\" alt=\"/no\"><script src=\"/p/web/proxy/s.js\">if (1</a>2) '<a \
                    href=\"/no\">'</script><p title=\"/no\"><a href=\"rel\"><form action=\"/p/web/proxy/post\"/>\
                    <a href=\"/p/web/proxy/cut";
        assert_eq!(PROXIED.rewrite_page(page), want);
        for odd in ["<", "<a", "<a href", "<a href=", "<a =x>", "<a href='", "<ä", "<a ä='/x'>", "<script>", "<!--"] {
            assert_eq!(PROXIED.rewrite_page(odd), odd);
        }
    }
}
