//! The resource table: how kinds are addressed and what the server does with them.

use crate::scheme::KindInfo;

/// A resource of the API: what discovery says of it.
#[derive(Debug)]
#[doc(alias = "APIResource")]
pub struct ResourceInfo {
    /// Group, version and kind of its objects.
    pub kind: KindInfo,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// Short names that people type.
    pub short_names: &'static [&'static str],
    /// Groups of resources it belongs to, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: &'static [&'static str],
    /// Parts of an object with paths of their own.
    pub subresources: &'static [SubresourceInfo],
    /// What a table of its objects shows.
    pub columns: &'static [ColumnInfo],
}

/// A part of an object with a path of its own, such as `status` or `scale`.
#[derive(Debug)]
pub struct SubresourceInfo {
    /// The name in the path.
    pub name: &'static str,
    /// Group, version and kind of what is read and written there.
    pub kind: KindInfo,
    /// What can be done with it.
    pub verbs: &'static [&'static str],
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "TableColumnDefinition")]
pub struct ColumnInfo {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type of its cells.
    pub ty: &'static str,
    /// The OpenAPI format of its cells.
    pub format: &'static str,
    /// 0 for columns that are always shown, higher for those of wide tables.
    pub priority: u32,
}

impl ResourceInfo {
    /// The subresource of this name.
    #[inline]
    pub fn subresource(&self, name: &str) -> Option<&'static SubresourceInfo> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether `verb` can be done with it.
    #[inline]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}
