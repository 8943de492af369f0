//! Validates the mandatory flow schemas and priority levels. Their specs are immutable: a change
//! could lock out the administrator or exempt all traffic.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};

use super::text;

/// Names and specs of the mandatory flow schemas.
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

/// Names and specs of the mandatory priority levels. The `exempt` field may change, so it is not
/// listed.
const LEVELS: [(&str, &str); 2] = [
    (
        "catch-all",
        r#"{"type":"Limited","limited":{"nominalConcurrencyShares":5,"lendablePercent":0,"limitResponse":{"type":"Reject"}}}"#,
    ),
    ("exempt", r#"{"type":"Exempt"}"#),
];

/// Reports a mandatory flow schema whose spec differs.
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

/// Reports a mandatory priority level whose spec differs.
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
