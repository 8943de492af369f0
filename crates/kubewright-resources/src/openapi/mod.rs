//! OpenAPI v3 (an index and one document per group version) and v2 (one document for all groups).
//!
//! An [`OpenApiDocument`] is built on demand from the served resources and the type tables. Callers
//! cache its bytes. kubectl reads from it the kinds, the names and types of their fields, how lists
//! are merged, and which parameters and patches each request accepts.

mod components;
mod document;
mod names;
mod operation;
mod parameters;
mod paths;
mod schema;
mod v2;

use kubewright_core::{Str, Value, tree};

use crate::hash;
pub use document::OpenApiDocument;
pub use v2::v2;

/// The hash of a document, by which clients cache it.
pub fn hash(document: &[u8]) -> String {
    hash::hex(document)
}

/// The URL of the document with this [`hash`].
pub fn place(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// The response to `/openapi/v3`: the URL of each group version's document.
///
/// Each entry is a path without its leading slash, such as `apis/apps/v1`, and the [`hash`] of its
/// document.
pub fn index<'p>(documents: impl IntoIterator<Item = (&'p str, &'p str)>) -> Value {
    let paths = documents
        .into_iter()
        .map(|(path, hash)| (Str::from(path), tree::map([("serverRelativeURL", place(path, hash).into())])));
    tree::map([("paths", Value::Object(paths.collect()))])
}

#[cfg(test)]
mod tests;
