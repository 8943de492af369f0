//! Cells of role bindings and certificate requests.

use kubewright_core::{Value, tree};

use crate::human_duration;
use crate::object::PrintedObject;

/// Name, role, age; users, groups, service accounts.
pub(super) fn role_binding(object: &PrintedObject<'_>) -> Vec<Value> {
    let subjects = |kind: &'static str, name: fn(&Value) -> String| -> Value {
        let subjects = object.items(&["subjects"]).iter().filter(|subject| tree::text(subject, &["kind"]) == kind);
        subjects.map(name).collect::<Vec<_>>().join(", ").into()
    };
    let name = |subject: &Value| tree::text(subject, &["name"]).to_owned();
    let account =
        |subject: &Value| format!("{}/{}", tree::text(subject, &["namespace"]), tree::text(subject, &["name"]));
    vec![
        object.name(),
        format!("{}/{}", object.text(&["roleRef", "kind"]), object.text(&["roleRef", "name"])).into(),
        object.age(),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", account),
    ]
}

/// Name, age, signer, requestor, requested duration, condition.
pub(super) fn certificate_signing_request(object: &PrintedObject<'_>) -> Vec<Value> {
    let has = |ty: &str| object.condition(ty).is_some();
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition += ",Failed";
    }
    if !object.text(&["status", "certificate"]).is_empty() {
        condition += ",Issued";
    }
    let duration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    vec![
        object.name(),
        object.age(),
        object.text_or(&["spec", "signerName"], "<none>"),
        object.text(&["spec", "username"]).into(),
        duration.map_or_else(|| "<none>".to_owned(), human_duration).into(),
        condition.into(),
    ]
}
