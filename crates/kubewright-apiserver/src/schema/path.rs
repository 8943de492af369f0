//! Where a value is in its object, as messages write it.

use std::fmt;

/// How many bytes of a name are written.
const MAX_NAME: usize = 512;
/// How many steps of a path are written, counted from its end.
const MAX_STEPS: usize = 64;

/// A path that is only written out when something is wrong at its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of the object at another path.
    Field(&'a Path<'a>, &'a str),
    /// An item of the list at another path.
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The path of a field.
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// The path of an item.
    pub(super) fn item(&'a self, index: usize) -> Path<'a> {
        Path::Item(self, index)
    }

    /// The path written out from the top, where the object itself is at `prefix`.
    pub(super) fn below(&self, prefix: &str) -> String {
        match (prefix, self) {
            ("", path) => path.to_string(),
            (prefix, Path::Root) => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, MAX_STEPS)
    }
}

impl Path<'_> {
    /// Writes the last `steps` steps of the path.
    fn write(&self, f: &mut fmt::Formatter<'_>, steps: usize) -> fmt::Result {
        if steps == 0 {
            return f.write_str("...");
        }
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(shortened(name)),
            Path::Field(parent, name) => {
                parent.write(f, steps - 1)?;
                write!(f, ".{}", shortened(name))
            }
            Path::Item(parent, index) => {
                parent.write(f, steps - 1)?;
                write!(f, "[{index}]")
            }
        }
    }
}

/// The beginning of a name. The keys of a map may be as long as the object.
fn shortened(name: &str) -> &str {
    let end = (0..=MAX_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_short_however_long_its_names_are_and_however_many() {
        let long = "x".repeat(100_000);
        let path = Path::Root.field("spec").field(&long).item(3).to_string();
        assert!(path.len() < 1000 && path.starts_with("spec.x") && path.ends_with("x[3]"));
        fn deep(path: &Path<'_>, depth: usize) -> String {
            if depth == 0 { path.to_string() } else { deep(&path.field("a"), depth - 1) }
        }
        let path = deep(&Path::Root, 200);
        assert!(path.len() < 500 && path.starts_with("....a") && path.ends_with(".a"), "{path}");
    }
}
