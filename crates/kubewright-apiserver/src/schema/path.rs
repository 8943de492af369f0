//! Where a value is in its object, as messages write it.

use std::fmt;

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
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
