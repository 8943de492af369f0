//! Request parameters by operation.

use kubewright_core::{Value, tree};

/// Query parameters, their types and descriptions.
const ALL: &[(&str, &str, &str)] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Also sends events of the type BOOKMARK, whose only content is a resource version.",
    ),
    ("continue", "string", "Continues a list where the answer with this token ended. A token expires after minutes."),
    ("dryRun", "string", "Runs all checks without a change. The only value is All."),
    ("fieldManager", "string", "Name of the party that makes the change, in at most 128 characters."),
    (
        "fieldSelector",
        "string",
        "Restricts the list of returned objects by the values of their fields. Defaults to all.",
    ),
    (
        "fieldValidation",
        "string",
        "What happens to unknown and duplicate fields: Ignore, Warn (the default) or Strict.",
    ),
    ("force", "boolean", "Takes fields from other field managers. Only for patches that apply."),
    (
        "gracePeriodSeconds",
        "integer",
        "Seconds before the object is deleted. Defaults to the value of its kind; zero means now.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Deletes an object that cannot be read, without finalizers and preconditions. Defaults to false.",
    ),
    ("labelSelector", "string", "Restricts the objects to those with these labels. Defaults to all."),
    ("limit", "integer", "Number of objects in an answer, at most. Further ones follow with the continue token."),
    (
        "orphanDependents",
        "boolean",
        "Deprecated: use propagationPolicy. Whether dependents keep existing without their owner.",
    ),
    ("pretty", "string", "Whether the answer is indented."),
    (
        "propagationPolicy",
        "string",
        "What happens to dependents: Orphan, Background or Foreground. The default depends on the kind.",
    ),
    (
        "resourceVersion",
        "string",
        "Version that the answer has to be as new as. resourceVersionMatch says how it is applied.",
    ),
    ("resourceVersionMatch", "string", "How resourceVersion is applied to a list: Exact or NotOlderThan."),
    (
        "sendInitialEvents",
        "boolean",
        "Starts a watch with an ADDED event for each object, and a bookmark after the last.",
    ),
    ("shardSelector", "string", "Restricts the objects to a shard, by a hash of a field."),
    ("timeoutSeconds", "integer", "Seconds after which the call ends."),
    ("watch", "boolean", "Watch for changes to the described resources, as events instead of a list."),
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
    let known = ALL.iter().find(|(known, ..)| *known == name);
    let (ty, description) = known.map_or_else(|| ("string", path_description(name)), |(_, ty, text)| (*ty, *text));
    let mut parameter = tree::map([
        ("name", Value::from(name)),
        ("in", Value::from(if in_path { "path" } else { "query" })),
        ("description", Value::from(description)),
        ("schema", tree::map([("type", Value::from(ty)), ("uniqueItems", true.into())])),
    ]);
    if in_path {
        tree::set(&mut parameter, &["required"], true);
    }
    parameter
}

/// The description of a path parameter.
fn path_description(name: &str) -> &'static str {
    match name {
        "name" => "Name of the object.",
        "namespace" => "Namespace of the objects.",
        _ => "The part of the URL that is passed on.",
    }
}
