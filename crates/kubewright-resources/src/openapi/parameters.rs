//! Request parameters by operation.

use kubewright_core::{Value, tree};

/// Query parameters and their types.
const ALL: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldSelector", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// Query parameters of lists and watches.
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// Query parameters of reads of one object.
pub(super) const GET: &[&str] = &["pretty"];

/// Query parameters of creations and updates.
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "pretty"];

/// Query parameters of patches.
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force", "pretty"];

/// Query parameters of deletions of one object.
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
];

/// Query parameters of deletions of a collection.
pub(super) const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

/// A parameter: in the path if it is a path segment, else in the query.
pub(super) fn parameter(name: &'static str) -> Value {
    let in_path = matches!(name, "name" | "namespace" | "path");
    let ty = ALL.iter().find(|(known, _)| *known == name).map_or("string", |(_, ty)| ty);
    let mut parameter = tree::map([
        ("name", Value::from(name)),
        ("in", Value::from(if in_path { "path" } else { "query" })),
        ("schema", tree::map([("type", Value::from(ty)), ("uniqueItems", true.into())])),
    ]);
    if in_path {
        tree::set(&mut parameter, &["required"], true);
    }
    parameter
}
