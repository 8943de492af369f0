//! Resource descriptions: names, scope and verbs.

use crate::codec::scheme::KindInfo;

/// An API resource, as in discovery.
#[derive(Debug)]
#[doc(alias = "APIResource")]
pub struct ResourceInfo {
    /// Group, version and kind of its objects.
    pub kind: KindInfo,
    /// The plural name, as in paths.
    pub plural: &'static str,
    /// The singular name.
    pub singular: &'static str,
    /// Short names for the command line.
    pub short_names: &'static [&'static str],
    /// Categories that it belongs to, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Supported verbs.
    pub verbs: &'static [&'static str],
    /// Subresources.
    pub subresources: &'static [SubresourceInfo],
    /// Columns of a table of its objects.
    pub columns: &'static [ColumnInfo],
}

/// A subresource, such as `status` or `scale`.
#[derive(Debug)]
pub struct SubresourceInfo {
    /// The name in the path.
    pub name: &'static str,
    /// Group, version and kind of its requests and responses.
    pub kind: KindInfo,
    /// Supported verbs.
    pub verbs: &'static [&'static str],
}

/// A table column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "TableColumnDefinition")]
pub struct ColumnInfo {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type of its cells.
    pub ty: &'static str,
    /// The OpenAPI format of its cells.
    pub format: &'static str,
    /// 0 for columns that are always shown, higher for wide tables.
    pub priority: u32,
}

impl ResourceInfo {
    /// The subresource of this name.
    #[inline]
    pub fn subresource(&self, name: &str) -> Option<&'static SubresourceInfo> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether it supports `verb`.
    #[inline]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}
