//! Validation of resource names.

/// The usual plural of a kind.
pub(crate) fn plural_of(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{lower}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{lower}s"),
    }
}

/// Why a text is not a group name, if so.
pub(crate) fn group_problem(text: &str) -> Option<&'static str> {
    let is_label = |label: &str| label_problem(label).is_none();
    (!text.contains('.') || !text.split('.').all(is_label))
        .then_some("a group is a DNS name with a dot, as `example.com`")
}

/// Why a text is not the name of a version or resource, if so.
pub(crate) fn label_problem(text: &str) -> Option<&'static str> {
    let is_fine = !text.is_empty()
        && text.len() <= 63
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    (!is_fine).then_some("a name has lower case letters, digits and dashes only")
}

/// Why a text is not a version, if so.
pub(crate) fn version_problem(text: &str) -> Option<&'static str> {
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_lowercase());
    (!starts || label_problem(text).is_some()).then_some("a version is a name such as `v1` or `v1alpha1`")
}

/// Why a text is not a kind, if so.
pub(crate) fn kind_problem(text: &str) -> Option<&'static str> {
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_uppercase());
    (!starts || !text.chars().all(|c| c.is_ascii_alphanumeric())).then_some("a kind is one word in CamelCase")
}

/// Why a text is not a path, if so.
pub(crate) fn path_problem(text: &str) -> Option<&'static str> {
    (!text.starts_with('.') || text.len() < 2).then_some("a path begins with a dot, as `.spec.replicas`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_that_people_expect() {
        for (kind, plural) in [
            ("Foo", "foos"),
            ("Ingress", "ingresses"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Box", "boxes"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
