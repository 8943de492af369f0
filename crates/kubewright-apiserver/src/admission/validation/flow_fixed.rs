//! Schemas and levels that every server has, and that are what they are: who could change them could lock the administrator out, or let
//! everybody in.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::text;
use crate::object::{Meta, tree};

/// Names and specs of schemas.
const SCHEMAS: [(&str, &str); 2] = [
    (
        "catch-all",
        r#"{"priorityLevelConfiguration":{"name":"catch-all"},"matchingPrecedence":10000,
            "distinguisherMethod":{"type":"ByUser"},
            "rules":[{"subjects":[{"kind":"Group","group":{"name":"system:unauthenticated"}},
                {"kind":"Group","group":{"name":"system:authenticated"}}],
              "resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],
              "nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#,
    ),
    (
        "exempt",
        r#"{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":1,
            "rules":[{"subjects":[{"kind":"Group","group":{"name":"system:masters"}}],
              "resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],
              "nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#,
    ),
];

/// Names and specs of levels. What is said of `exempt` may be changed, and is left out.
const LEVELS: [(&str, &str); 2] = [
    (
        "catch-all",
        r#"{"type":"Limited","limited":{"nominalConcurrencyShares":5,"lendablePercent":0,"limitResponse":{"type":"Reject"}}}"#,
    ),
    ("exempt", r#"{"type":"Exempt"}"#),
];

/// What is wrong with a schema that every server has.
pub(super) fn schema(value: &Value) -> Option<StatusCause> {
    let fixed = fixed(&SCHEMAS, value)?;
    let spec = value.get("spec").cloned().unwrap_or_default();
    let shown = || {
        let fields = [
            ("PriorityLevelConfiguration", "priorityLevelConfiguration", "{}"),
            ("MatchingPrecedence", "matchingPrecedence", "0"),
            ("DistinguisherMethod", "distinguisherMethod", "null"),
            ("Rules", "rules", "null"),
        ];
        text::internal(&spec, &fields)
    };
    let why = || format!("spec of '{}' must equal the fixed value", value.name());
    (spec != fixed).then(|| StatusCause::invalid("spec", shown(), &why()))
}

/// What is wrong with a level that every server has.
pub(super) fn level(value: &Value) -> Option<StatusCause> {
    let fixed = fixed(&LEVELS, value)?;
    let spec = value.get("spec").cloned().unwrap_or_default();
    let mut compared = spec.clone();
    let is_exempt = value.name() == "exempt";
    if is_exempt {
        tree::remove(&mut compared, &["exempt"]);
    }
    let fields = [("Type", "type", "\"\""), ("Limited", "limited", "null"), ("Exempt", "exempt", "null")];
    let but = if is_exempt { " except the 'spec.exempt' field" } else { "" };
    let why = format!("spec of '{}'{but} must equal the fixed value", value.name());
    (compared != fixed).then(|| StatusCause::invalid("spec", text::internal(&spec, &fields), &why))
}

fn fixed(all: &[(&str, &str)], value: &Value) -> Option<Value> {
    let (_, spec) = all.iter().find(|(name, _)| *name == value.name())?;
    Some(Value::from_json(spec.as_bytes()).expect("it is written above"))
}
