//! Options of reading one object.

use super::query::{Query, append};
use crate::Str;

/// How one object is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// What the object must not be older than; `0` for whatever the server has at hand.
    /// Absent by default: the latest.
    pub resource_version: Option<Str>,
}

impl GetOptions {
    /// Accepts the object as of this version or any later one; `0` accepts any.
    #[must_use]
    #[inline]
    pub fn resource_version(mut self, version: impl Into<Str>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// Adds these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        if let Some(version) = &self.resource_version {
            append(query, "resourceVersion", &version);
        }
    }

    /// The options of a request.
    #[inline]
    pub fn from_query(query: &Query) -> Self {
        GetOptions { resource_version: query.text("resourceVersion").map(Str::from) }
    }
}
