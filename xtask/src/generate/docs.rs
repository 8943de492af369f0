//! The docs of types and fields in Rust, from the sentences in the description.

use std::fmt::Write;

use crate::description::{Field, FieldType, GroupVersion};

/// The doc comment of a field: its sentence, then facts that neither the sentence nor the Rust type
/// states.
pub fn write_field(out: &mut String, field: &Field) {
    let _ = writeln!(out, "/// {}", rust(&field.doc));
    let mut facts = Vec::new();
    if field.required && matches!(field.ty, FieldType::List(_) | FieldType::Map(_)) {
        facts.push("Required.".to_owned());
    }
    for (words, values) in [("One of", &field.values), ("Each is one of", &field.item_values)] {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| format!("`{value:?}`")).collect();
            facts.push(format!("{words} {}.", values.join(", ")));
        }
    }
    if !facts.is_empty() {
        let _ = writeln!(out, "///\n/// {}", facts.join(" "));
    }
}

/// A sentence without characters that rustdoc would read as markup.
pub fn rust(doc: &str) -> String {
    let mut escaped = String::with_capacity(doc.len());
    for letter in doc.chars() {
        if "\\`*_[]<>#".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// All types and fields that have no doc.
pub fn check(api: &[GroupVersion]) -> Result<(), String> {
    let mut bare = Vec::new();
    for gv in api {
        let place = format!("api/{}.{}.api", gv.module, gv.version);
        for ty in &gv.types {
            if ty.doc.is_empty() {
                bare.push(format!("{place}: {}", ty.name));
            }
            let fields = ty.fields.iter().filter(|field| field.doc.is_empty());
            bare.extend(fields.map(|field| format!("{place}: {}.{}", ty.name, field.name)));
        }
    }
    if bare.is_empty() {
        Ok(())
    } else {
        Err(format!("{} types and fields have no `///` line above them:\n{}", bare.len(), bare.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description;

    fn api(text: &str) -> Vec<GroupVersion> {
        let head = "group \"apps\" version v1 package io.k8s.api.apps.v1\n";
        vec![description::parse("apps", &format!("{head}{text}")).unwrap()]
    }

    #[test]
    fn a_type_or_field_without_a_doc_is_named() {
        assert_eq!(check(&api("/// A foo.\ntype Foo\n  /// A bar.\n  bar 1 string\n")), Ok(()));
        let error = check(&api("type Foo\n  bar 1 string\n")).unwrap_err();
        let lines: Vec<&str> = error.lines().skip(1).collect();
        assert_eq!(lines, ["api/apps.v1.api: Foo", "api/apps.v1.api: Foo.bar"]);
    }

    #[test]
    fn the_doc_of_a_field_has_its_allowed_values() {
        let api = api("type Foo\n  /// Kinds of bars.\n  bars 1 []string required items-enum=A|B\n");
        let mut out = String::new();
        write_field(&mut out, &api[0].types[0].fields[0]);
        assert_eq!(out, "/// Kinds of bars.\n///\n/// Required. Each is one of `\"A\"`, `\"B\"`.\n");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(rust("\"*\" stands for all, as in a[0] < b_c."), r#""\*" stands for all, as in a\[0\] \< b\_c."#);
    }
}
