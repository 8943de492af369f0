//! Field paths in messages.

use std::fmt;

/// The limit on the length of a name in a message, in bytes.
const MAX_NAME: usize = 512;
/// The number of steps in a message, counted from the end of the path.
const MAX_STEPS: usize = 64;

/// The path of a value in its object. Borrowed during a walk, formatted only for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldPath<'a> {
    /// The object itself.
    Root,
    /// A field of the object at another path.
    Field(&'a FieldPath<'a>, &'a str),
    /// An item of the list at another path.
    Item(&'a FieldPath<'a>, usize),
}

impl<'a> FieldPath<'a> {
    /// The path of a field.
    pub(crate) fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    /// The path of an item.
    pub(crate) fn item(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath::Item(self, index)
    }

    /// The path from the top, where the object itself is at `prefix`.
    pub(crate) fn with_prefix(&self, prefix: &str) -> String {
        match (prefix, self) {
            ("", path) => path.to_string(),
            (prefix, FieldPath::Root) => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, MAX_STEPS)
    }
}

impl FieldPath<'_> {
    /// Writes the last `steps` steps.
    fn write(&self, f: &mut fmt::Formatter<'_>, steps: usize) -> fmt::Result {
        if steps == 0 {
            return f.write_str("...");
        }
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(truncate(name)),
            FieldPath::Field(parent, name) => {
                parent.write(f, steps - 1)?;
                write!(f, ".{}", truncate(name))
            }
            FieldPath::Item(parent, index) => {
                parent.write(f, steps - 1)?;
                write!(f, "[{index}]")
            }
        }
    }
}

/// Truncates a name. Keys of maps can be as long as the request.
fn truncate(name: &str) -> &str {
    let end = (0..=MAX_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_path_is_bounded() {
        let long = "x".repeat(100_000);
        let path = FieldPath::Root.field("spec").field(&long).item(3).to_string();
        assert!(path.len() < 1000 && path.starts_with("spec.x") && path.ends_with("x[3]"));
        fn deep(path: &FieldPath<'_>, depth: usize) -> String {
            if depth == 0 { path.to_string() } else { deep(&path.field("a"), depth - 1) }
        }
        let path = deep(&FieldPath::Root, 200);
        assert!(path.len() < 500 && path.starts_with("....a") && path.ends_with(".a"), "{path}");
    }
}
