//! Cells of FlowSchemas and PriorityLevelConfigurations.

use std::cmp::Ordering;

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, number_at};

/// Orders flow schemas by matching precedence, then by name.
pub(super) fn in_precedence(one: &Value, other: &Value) -> Ordering {
    let rank = |schema| (number_at(schema, &["spec", "matchingPrecedence"]), tree::text(schema, &["metadata", "name"]));
    rank(one).cmp(&rank(other))
}

/// Name, priority level, precedence, distinguisher, age, whether the level is missing.
pub(super) fn flow_schema(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![
        object.name(),
        object.text(&["spec", "priorityLevelConfiguration", "name"]).into(),
        object.number(&["spec", "matchingPrecedence"]).into(),
        object.text_or(&["spec", "distinguisherMethod", "type"], "<none>"),
        object.age(),
        object.condition("Dangling").unwrap_or("?").into(),
    ]
}

/// Name, type, shares, queues, hand size, queue length, age.
pub(super) fn priority_level_configuration(object: &PrintedObject<'_>) -> Vec<Value> {
    let number = |parent: &[&str], key: &str| {
        if object.has(parent) { object.number(&[parent, &[key]].concat()).into() } else { Value::from("<none>") }
    };
    let limited = ["spec", "limited"];
    let queuing = ["spec", "limited", "limitResponse", "queuing"];
    vec![
        object.name(),
        object.text(&["spec", "type"]).into(),
        number(&limited, "nominalConcurrencyShares"),
        number(&queuing, "queues"),
        number(&queuing, "handSize"),
        number(&queuing, "queueLengthLimit"),
        object.age(),
    ]
}
