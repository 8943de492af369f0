//! OpenAPI v3: one document for each version of each group, and an index of them; and v2, one document for all.
//!
//! A [`Document`] is made from what is served and from the tables of the types, when someone asks for it; keeping its
//! bytes is left to the caller. kubectl reads from it which kinds there are, how their fields are called
//! and typed, how lists merge, and which requests take which parameters and patches.

mod components;
mod custom;
mod document;
mod names;
mod operation;
mod parameters;
mod paths;
mod schema;
mod v2;

use kubewright_core::{Str, Value};

use crate::hash;
use crate::tree::object;
pub use document::Document;
pub use v2::v2;

/// The hash of a document's bytes, by which clients know whether they have it already.
pub fn hash(document: &[u8]) -> String {
    hash::hex(document)
}

/// Where a document is, as long as it has this [`hash`].
pub fn place(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// The answer to `/openapi/v3`: where the document of each version of each group is.
///
/// Each entry is a path without its first slash, such as `apis/apps/v1`, and the [`hash`] of its document.
pub fn index<'p>(documents: impl IntoIterator<Item = (&'p str, &'p str)>) -> Value {
    let paths = documents
        .into_iter()
        .map(|(path, hash)| (Str::from(path), object([("serverRelativeURL", place(path, hash).into())])));
    object([("paths", Value::Object(paths.collect()))])
}

#[cfg(test)]
mod tests;
