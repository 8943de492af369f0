//! Names of projects and kinds, and the Rust names that follow from them.

use kubewright_core::validation::dns1123_label;

/// Words that cannot be the name of a module.
const KEYWORDS: [&str; 53] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "raw",
];

/// Crates that a module of the same name would hide.
const CRATES: [&str; 9] =
    ["alloc", "clap", "core", "kubewright", "schemars", "serde", "std", "tokio", "tracing_subscriber"];

/// Names that a struct in the module of a type would hide: `Self`, those of the prelude and of the
/// imports.
const HIDDEN: [&str; 50] = [
    "AsMut",
    "AsRef",
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Box",
    "Clone",
    "Copy",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Hash",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "JsonSchema",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Self",
    "Send",
    "Serialize",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
];

/// Checks the name of a project.
pub fn check_project(name: &str) -> Result<(), String> {
    let is_name = dns1123_label(name).is_empty() && name.starts_with(|c: char| c.is_ascii_lowercase());
    if !is_name || name.len() > 50 {
        return Err(format!(
            "{name:?} is no name for a program: lower case letters, digits and dashes, at most 50 of them"
        ));
    }
    let in_rust = name.replace('-', "_");
    // Folders of cargo's target directory, and the crate of tests.
    let is_of_cargo = ["build", "deps", "examples", "incremental", "test"].contains(&name);
    if is_of_cargo || CRATES.contains(&in_rust.as_str()) || KEYWORDS.contains(&in_rust.as_str()) {
        return Err(format!("{name:?} is no name for a program: it is a word of Rust or Cargo, or a dependency"));
    }
    Ok(())
}

/// Checks the name of a group.
pub fn check_group(group: &str) -> Result<(), String> {
    if !group.contains('.') || !group.split('.').all(|label| dns1123_label(label).is_empty()) {
        return Err(format!("{group:?} is no group: a DNS name with a dot, as `example.com`"));
    }
    if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
        return Err(format!("the group {group:?} is reserved for Kubernetes itself; use a DNS name that you own"));
    }
    Ok(())
}

/// Checks the name of a version.
pub fn check_version(version: &str) -> Result<(), String> {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) && !text.starts_with('0');
    let rest = version.strip_prefix('v').unwrap_or_default();
    let is_version = ["alpha", "beta"]
        .iter()
        .find_map(|stage| rest.split_once(stage))
        .map_or_else(|| digits(rest), |(major, minor)| digits(major) && digits(minor));
    if is_version { Ok(()) } else { Err(format!("{version:?} is no version: `v1`, `v1beta1` or `v2alpha3`")) }
}

/// Checks the name of a kind.
pub fn check_kind(kind: &str) -> Result<(), String> {
    let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.len() < 60
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    if is_kind { Ok(()) } else { Err(format!("{kind:?} is no kind: one word in CamelCase, as `--kind CronTab`")) }
}

/// Checks the plural name of a kind.
pub fn check_plural(plural: &str) -> Result<(), String> {
    if dns1123_label(plural).is_empty() {
        return Ok(());
    }
    Err(format!("{plural:?} is no plural of a resource: lower case letters, digits and dashes"))
}

/// The struct of a kind. Kinds that are no name of a struct, or would hide a name of the prelude,
/// get a longer one.
pub fn struct_of(kind: &str) -> String {
    if HIDDEN.contains(&kind) { format!("{kind}Resource") } else { kind.to_owned() }
}

/// The module of a kind: `cron_tab` for `CronTab`, `http_route` for `HTTPRoute`.
pub fn module_of(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && !letters[index - 1].is_ascii_uppercase();
        let before_lower = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && index > 0 && (after_lower || before_lower) {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    if KEYWORDS.contains(&name.as_str()) || CRATES.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// `cron-tab-operator` is for a `CronTab`.
pub fn kind_of(project: &str) -> String {
    let subject = ["-operator", "-controller"].iter().find_map(|end| project.strip_suffix(end)).unwrap_or(project);
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    subject.split('-').map(word).collect()
}

/// The usual plural of a kind, as in the derive macro.
pub fn plural_of(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| lower.ends_with(end)) {
        return format!("{lower}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none_are_refused_with_the_reason() {
        for (problem, told) in [
            (check_project("Shop"), "lower case"),
            (check_project("9shop"), "lower case"),
            (check_project("test"), "word of Rust or Cargo"),
            (check_project("tracing-subscriber"), "a dependency"),
            (check_project("match"), "word of Rust"),
            (check_group("example"), "DNS name with a dot"),
            (check_group("apps.k8s.io"), "reserved for Kubernetes"),
            (check_version("1"), "is no version"),
            (check_version("v1gamma1"), "is no version"),
            (check_version("v0"), "is no version"),
            (check_kind("order"), "is no kind"),
            (check_kind("Or-der"), "is no kind"),
            (check_plural("Orders"), "is no plural"),
        ] {
            let problem = problem.expect_err(told);
            assert!(problem.contains(told), "{problem}");
        }
        for version in ["v1", "v12", "v1alpha1", "v2beta10"] {
            assert_eq!(check_version(version), Ok(()));
        }
    }

    #[test]
    fn kinds_that_are_words_of_rust_get_other_names_in_rust() {
        for (kind, type_name, module) in [
            ("CronTab", "CronTab", "cron_tab"),
            ("HTTPRoute", "HTTPRoute", "http_route"),
            ("Type", "Type", "type_"),
            ("Self", "SelfResource", "self_"),
            ("Option", "OptionResource", "option"),
            ("Box", "BoxResource", "box_"),
            ("CustomResource", "CustomResourceResource", "custom_resource"),
            ("Core", "Core", "core_"),
            ("S3Bucket", "S3Bucket", "s3_bucket"),
        ] {
            assert_eq!((struct_of(kind).as_str(), module_of(kind).as_str()), (type_name, module));
        }
    }

    #[test]
    fn the_kind_is_derived_from_the_project_name() {
        assert_eq!(kind_of("cron-tab-operator"), "CronTab");
        assert_eq!(kind_of("shop"), "Shop");
        assert_eq!((plural_of("Policy"), plural_of("Box")), ("policies".to_owned(), "boxes".to_owned()));
    }
}
