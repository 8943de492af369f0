//! Cells of workloads: deployments, replica sets, stateful sets, daemon sets.

use kubewright_core::{GroupKind, GroupVersion, Value, tree};

use crate::object::PrintedObject;

const CONTAINERS: [&str; 4] = ["spec", "template", "spec", "containers"];

/// Name, ready, up-to-date, available, age; containers, images, selector.
pub(super) fn deployment(object: &PrintedObject<'_>) -> Vec<Value> {
    let [names, images] = object.containers(&CONTAINERS);
    vec![
        object.name(),
        ready(object),
        object.number(&["status", "updatedReplicas"]).into(),
        object.number(&["status", "availableReplicas"]).into(),
        object.age(),
        names,
        images,
        object.selector(&["spec", "selector"]).unwrap_or_else(|| "<invalid>".to_owned()).into(),
    ]
}

/// Name, desired, current, ready, age; containers, images, selector.
pub(super) fn replica_set(object: &PrintedObject<'_>) -> Vec<Value> {
    replicas(object, object.selector_cell(&["spec", "selector"]))
}

/// As for replica sets, but with a plain label map as the selector.
pub(super) fn replication_controller(object: &PrintedObject<'_>) -> Vec<Value> {
    replicas(object, object.labels(&["spec", "selector"]))
}

fn replicas(object: &PrintedObject<'_>, selector: Value) -> Vec<Value> {
    let [names, images] = object.containers(&CONTAINERS);
    vec![
        object.name(),
        object.number(&["spec", "replicas"]).into(),
        object.number(&["status", "replicas"]).into(),
        object.number(&["status", "readyReplicas"]).into(),
        object.age(),
        names,
        images,
        selector,
    ]
}

/// Name, ready, age; containers, images.
pub(super) fn stateful_set(object: &PrintedObject<'_>) -> Vec<Value> {
    let [names, images] = object.containers(&CONTAINERS);
    vec![object.name(), ready(object), object.age(), names, images]
}

/// Name, desired, current, ready, up-to-date, available, node selector, age; containers, images,
/// selector.
pub(super) fn daemon_set(object: &PrintedObject<'_>) -> Vec<Value> {
    let [names, images] = object.containers(&CONTAINERS);
    let number = |key: &str| Value::from(object.number(&["status", key]));
    vec![
        object.name(),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        object.labels(&["spec", "template", "spec", "nodeSelector"]),
        object.age(),
        names,
        images,
        object.selector_cell(&["spec", "selector"]),
    ]
}

/// Name, controller, revision, age.
pub(super) fn controller_revision(object: &PrintedObject<'_>) -> Vec<Value> {
    let owners = object.items(&["metadata", "ownerReferences"]);
    let controller =
        owners.iter().find(|owner| tree::get(owner, &["controller"]).and_then(Value::as_bool) == Some(true));
    let controller = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let version: GroupVersion = tree::text(owner, &["apiVersion"]).parse().unwrap_or_default();
            let kind = GroupKind::new(version.group, tree::text(owner, &["kind"])).to_string().to_lowercase();
            format!("{kind}/{}", tree::text(owner, &["name"]))
        },
    );
    vec![object.name(), controller.into(), object.number(&["revision"]).into(), object.age()]
}

/// Name, containers, images, pod labels.
pub(super) fn pod_template(object: &PrintedObject<'_>) -> Vec<Value> {
    let [names, images] = object.containers(&["template", "spec", "containers"]);
    vec![object.name(), names, images, object.labels(&["template", "metadata", "labels"])]
}

fn ready(object: &PrintedObject<'_>) -> Value {
    format!("{}/{}", object.number(&["status", "readyReplicas"]), object.number(&["spec", "replicas"])).into()
}
