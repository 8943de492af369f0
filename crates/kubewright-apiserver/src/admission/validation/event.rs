//! Events, which belong where the object is that they are about.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;
use super::number;
use crate::object::{Meta, tree};

/// What is wrong with an event of the core group.
pub(super) fn core(value: &Value) -> Vec<StatusCause> {
    let about = tree::text(value, &["involvedObject", "namespace"]);
    let is_there = match about {
        "" => value.namespace() == "default",
        about => value.namespace() == about,
    };
    let why = "does not match event.namespace";
    let cause = || StatusCause::invalid("involvedObject.namespace", quoted(about), why);
    (!is_there).then(cause).into_iter().collect()
}

/// What is wrong with an event of the newer group, given in the form of the core group.
pub(super) fn newer(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if old.is_some() {
        return Vec::new();
    }
    let mut causes = core(value);
    if tree::text(value, &["eventTime"]).is_empty() {
        causes.push(StatusCause::required("eventTime", ""));
    }
    for (field, name) in [
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if tree::text(value, &[field]).is_empty() {
            causes.push(StatusCause::required(name, ""));
        }
    }
    causes.extend(
        number::one_of("type", tree::text(value, &["type"]), &["Normal", "Warning"])
            .map(|_| StatusCause::invalid("type", quoted(""), "has invalid value: ")),
    );
    causes
}
