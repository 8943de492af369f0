//! Common conditions for [`await_condition`](super::await_condition).
//!
//! They read objects as JSON, so they work with all types, including dynamic ones.

use kubewright_core::{Object, Value};

/// Whether the status has this condition with status `True`: `Ready`, `Complete`, `Available`,
/// `Established`. Like `kubectl wait --for=condition=…`, it ignores conditions of an earlier
/// generation.
///
/// ```
/// # use kubewright_client::{Api, Result, watch::{await_condition, conditions}};
/// # use kubewright_core::DynamicObject;
/// # async fn example(jobs: Api<DynamicObject>) -> Result<()> {
/// await_condition(&jobs, "backup", conditions::has_condition("Complete")).await?;
/// # Ok(()) }
/// ```
pub fn has_condition<T: Object>(name: &str) -> impl FnMut(Option<&T>) -> bool {
    on_tree(move |tree| {
        let conditions = at(tree, &["status", "conditions"]).and_then(Value::as_array);
        let is_it = |one: &&Value| one.get("type").and_then(Value::as_str) == Some(name);
        conditions
            .and_then(|all| all.iter().find(is_it))
            .is_some_and(|one| one.get("status").and_then(Value::as_str) == Some("True") && is_observed(tree, one))
    })
}

/// Whether the status has this phase: `Running` for a pod, `Bound` for a claim, `Active` for a
/// namespace.
pub fn has_phase<T: Object>(phase: &str) -> impl FnMut(Option<&T>) -> bool {
    on_tree(move |tree| at(tree, &["status", "phase"]).and_then(Value::as_str) == Some(phase))
}

/// Whether the rollout of a Deployment, or of another kind with the same status, is complete: all
/// replicas are of the current template and available. What `kubectl rollout status` waits for.
pub fn has_rolled_out<T: Object>() -> impl FnMut(Option<&T>) -> bool {
    on_tree(|tree| {
        let count = |field: &str| at(tree, &["status", field]).and_then(Value::as_i64).unwrap_or_default();
        let wanted = at(tree, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
        let updated = count("updatedReplicas");
        // Without a status, the controller has not seen the object.
        let generation = at(tree, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        tree.get("status").is_some()
            && count("observedGeneration") >= generation
            && updated >= wanted
            && count("replicas") <= updated
            && count("availableReplicas") >= updated
    })
}

/// Whether the object of this uid is deleted, even if another one of its name exists.
pub fn is_deleted<T: Object>(uid: &str) -> impl FnMut(Option<&T>) -> bool {
    move |object| object.is_none_or(|object| object.uid() != uid)
}

fn on_tree<T: Object>(holds: impl Fn(&Value) -> bool) -> impl FnMut(Option<&T>) -> bool {
    move |object| object.and_then(|object| Value::from_json(&object.to_json()).ok()).is_some_and(|tree| holds(&tree))
}

#[inline]
fn at<'t>(tree: &'t Value, path: &[&str]) -> Option<&'t Value> {
    path.iter().try_fold(tree, |value, field| value.get(field))
}

/// Whether a part of the status is of the current generation; true if it does not state one.
#[inline]
fn is_observed(tree: &Value, part: &Value) -> bool {
    let generation = at(tree, &["metadata", "generation"]).and_then(Value::as_i64);
    let observed = part.get("observedGeneration").and_then(Value::as_i64);
    observed.is_none_or(|observed| observed >= generation.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use kubewright_core::{DynamicObject, json};

    use super::*;

    fn object(generation: i64, status: Value) -> DynamicObject {
        let tree = json!({"apiVersion": "e/v1", "kind": "Foo", "metadata": {"name": "a", "uid": "1", "generation": generation},
            "spec": {"replicas": 2}, "status": status});
        tree.to_string().parse().unwrap()
    }

    #[test]
    fn conditions_are_true_of_the_present_generation() {
        let ready = |status: &str, observed: Option<i64>| json!({"conditions": [{"type": "Other", "status": "True"}, {"type": "Ready", "status": status, "observedGeneration": observed}]});
        let mut holds = has_condition("Ready");
        assert!(holds(Some(&object(2, ready("True", None)))));
        assert!(holds(Some(&object(2, ready("True", Some(2))))));
        assert!(!holds(Some(&object(2, ready("True", Some(1))))));
        assert!(!holds(Some(&object(2, ready("False", None)))));
        assert!(!holds(Some(&object(2, json!({})))));
        assert!(!holds(None));
    }

    #[test]
    fn phases_roll_outs_and_ends() {
        assert!(has_phase("Running")(Some(&object(1, json!({"phase": "Running"})))));
        assert!(!has_phase("Running")(Some(&object(1, json!({"phase": "Pending"})))));
        let status = |observed, replicas, updated, available| json!({"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available});
        for (status, wanted) in [
            (status(3, 2, 2, 2), true),
            (status(2, 2, 2, 2), false),
            (status(3, 3, 2, 2), false),
            (status(3, 2, 2, 1), false),
            (status(3, 1, 1, 1), false),
            (json!({}), false),
        ] {
            assert_eq!(has_rolled_out()(Some(&object(3, status.clone()))), wanted, "{status}");
        }
        let mut new = object(1, json!({}));
        new.set(&["spec", "replicas"], 0).unwrap();
        assert!(!has_rolled_out()(Some(&new)), "nobody has looked at it yet");
        let found = object(1, json!({}));
        assert!(
            !is_deleted("1")(Some(&found)) && is_deleted("2")(Some(&found)) && is_deleted::<DynamicObject>("1")(None)
        );
    }
}
