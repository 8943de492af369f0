//! Rust names of fields, variants and types.

/// Words that are written as raw identifiers.
const RAW: [&str; 46] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where",
];

/// Words that cannot be raw identifiers, and two more keywords.
const NEVER: [&str; 6] = ["crate", "self", "super", "_", "while", "yield"];

/// The words of a name: `podIPs` has `pod` and `ips`, `x-my_field` has `x`, `my` and `field`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = vec![String::new()];
    for (index, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = index.checked_sub(1).and_then(|at| letters.get(at));
        let follows_small = before.is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit());
        // The last capital of a row begins a word, unless it is a plural: `IPs`.
        let after = letters.get(index + 1);
        let is_plural = after == Some(&'s') && letters.get(index + 2).is_none_or(|next| !next.is_ascii_lowercase());
        let begins =
            before.is_some_and(char::is_ascii_uppercase) && after.is_some_and(char::is_ascii_lowercase) && !is_plural;
        if letter.is_ascii_uppercase() && (follows_small || begins) {
            words.push(String::new());
        }
        let last = words.len() - 1;
        words[last].push(letter.to_ascii_lowercase());
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A field, without the mark of raw identifiers.
pub fn field(name: &str) -> String {
    let mut field = words(name).join("_");
    if field.is_empty() || field.starts_with(|c: char| c.is_ascii_digit()) {
        field.insert_str(0, "field_");
    }
    if NEVER.contains(&field.as_str()) {
        field.push('_');
    }
    field
}

/// A field as it is written.
pub fn written(field: &str) -> String {
    if RAW.contains(&field) { format!("r#{field}") } else { field.to_owned() }
}

/// A field as serde's `camelCase` writes it.
pub fn camel_case(field: &str) -> String {
    let pascal: String = field.split('_').map(capitalized).collect();
    let mut letters = pascal.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

/// A part of the name of a type, and a variant.
pub fn camel(name: &str) -> String {
    words(name).iter().map(|word| capitalized(word)).collect()
}

/// A variant of an enum of strings.
pub fn variant(value: &str) -> String {
    let mut variant = camel(value);
    if value.starts_with('-') && variant.starts_with(|c: char| c.is_ascii_digit()) {
        variant.insert_str(0, "Minus");
    }
    if variant.is_empty() {
        variant = if value.is_empty() { "Empty".to_owned() } else { "Other".to_owned() };
    }
    if variant.starts_with(|c: char| c.is_ascii_digit()) {
        variant.insert(0, 'V');
    }
    if variant == "Self" {
        variant.push('_');
    }
    variant
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// The first of `name`, `name2`, `name3` … that is not taken.
pub fn free(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    (2..).map(|number| format!("{name}{number}")).find(|name| !is_taken(name)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        for (name, snake) in [
            ("dnsNames", "dns_names"),
            ("podIPs", "pod_ips"),
            ("clusterIP", "cluster_ip"),
            ("apiVersion", "api_version"),
            ("HTTPRoute", "http_route"),
            ("x-kubernetes", "x_kubernetes"),
            ("$ref", "ref"),
            ("self", "self_"),
            ("2fast", "field_2fast"),
            ("-", "field_"),
        ] {
            assert_eq!(field(name), snake, "{name}");
        }
        assert_eq!((written("type"), written("kind")), ("r#type".to_owned(), "kind".to_owned()));
        assert_eq!(camel_case("dns_names"), "dnsNames");
    }

    #[test]
    fn values_become_variants() {
        for (value, name) in [
            ("RollingUpdate", "RollingUpdate"),
            ("", "Empty"),
            ("*", "Other"),
            ("1.2", "V12"),
            ("-1", "Minus1"),
            ("Self", "Self_"),
            ("http2", "Http2"),
            ("PKCS#8", "Pkcs8"),
        ] {
            assert_eq!(variant(value), name, "{value}");
        }
    }
}
