//! Options of reading one object.

use super::query::{QueryParameters, append};
use crate::Str;

/// Options of reading one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Minimum version of the object; `0` accepts any cached version. Unset by default: the latest.
    pub resource_version: Option<Str>,
}

impl GetOptions {
    /// Accepts the object at this version or later; `0` accepts any.
    #[must_use]
    pub fn resource_version(mut self, version: impl Into<Str>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        if let Some(version) = &self.resource_version {
            append(query, "resourceVersion", &version);
        }
    }

    /// Parses the options of a request.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Self {
        GetOptions { resource_version: query.text("resourceVersion").map(Str::from) }
    }
}
