//! Temporary stand-in for the generated `meta::v1`; deleted when the generated types arrive.
#![allow(missing_docs)]

use crate::{List, Map, Str};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

impl Time {
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Time(since.map_or(0, |since| since.as_nanos() as i64))
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectMeta {
    pub name: Option<Str>,
    pub generate_name: Option<Str>,
    pub namespace: Option<Str>,
    pub uid: Option<Str>,
    pub resource_version: Option<Str>,
    pub generation: Option<i64>,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: Map<Str>,
    pub annotations: Map<Str>,
    pub owner_references: List<OwnerReference>,
    pub finalizers: List<Str>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnerReference {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    pub uid: Str,
    pub controller: Option<bool>,
    pub block_owner_deletion: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabelSelector {
    pub match_labels: Map<Str>,
    pub match_expressions: List<LabelSelectorRequirement>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabelSelectorRequirement {
    pub key: Str,
    pub operator: Str,
    pub values: List<Str>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Condition {
    pub type_: Str,
    pub status: Str,
    pub observed_generation: Option<i64>,
    pub last_transition_time: Option<Time>,
    pub reason: Str,
    pub message: Str,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    pub metadata: ListMeta,
    pub status: Option<Str>,
    pub message: Option<Str>,
    pub reason: Option<Str>,
    pub details: Option<Box<StatusDetails>>,
    pub code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusDetails {
    pub name: Option<Str>,
    pub group: Option<Str>,
    pub kind: Option<Str>,
    pub uid: Option<Str>,
    pub causes: List<StatusCause>,
    pub retry_after_seconds: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusCause {
    pub reason: Option<Str>,
    pub message: Option<Str>,
    pub field: Option<Str>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListMeta {
    pub resource_version: Option<Str>,
    pub continue_: Option<Str>,
    pub remaining_item_count: Option<i64>,
}
