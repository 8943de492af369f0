//! The Priority and DefaultTolerationSeconds admission plugins.

use kubewright_core::meta::v1::Status;
use kubewright_core::{List, Value};

use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_storage::{Key, KeyRange};

/// Default toleration of unreachable and not-ready nodes, in seconds.
const TOLERATION_SECONDS: i64 = 300;

/// Sets the priority and the default tolerations of a new pod.
pub(super) fn set(cluster: &dyn ClusterState, pod: &mut Value) -> Result<(), Rejection> {
    add_default_tolerations(cluster, pod);
    if !cluster.has_plugin(AdmissionPlugin::Priority) {
        return Ok(());
    }
    let name = tree::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = match name.as_str() {
        "" => default_class(cluster),
        name => Some(class(cluster, name).ok_or_else(|| {
            let resource = kubewright_core::GroupResource::from_static("", "pods");
            let why = format!("no PriorityClass with name {name} was found");
            Rejection::from(Status::forbidden(&resource, pod.name(), why))
        })?),
    };
    let (name, value, policy) = class.unwrap_or((String::new(), 0, "PreemptLowerPriority".to_owned()));
    let refuse = |what: String, made: &str| {
        let resource = kubewright_core::GroupResource::from_static("", "pods");
        let by = format!("priority admission controller computed {made} from the given PriorityClass name");
        let why = format!("the {what} must not be provided in pod spec; {by}");
        Err(Status::forbidden(&resource, pod.name(), why).into())
    };
    match tree::int(pod, &["spec", "priority"]) {
        Some(given) if given != value => {
            return refuse(format!("integer value of priority ({given})"), &value.to_string());
        }
        _ => {}
    }
    match tree::text(pod, &["spec", "preemptionPolicy"]) {
        given if !given.is_empty() && given != policy => {
            return refuse(format!("string value of PreemptionPolicy ({given})"), &policy);
        }
        _ => {}
    }
    if let Some(spec) = tree::field_mut(pod, "spec") {
        if !name.is_empty() {
            tree::default_zero(spec, "priorityClassName", name);
        }
        tree::set(spec, &["priority"], value);
        tree::default(spec, "preemptionPolicy", policy);
    }
    Ok(())
}

/// Completes the new state of a pod as creation did. A client may replace a pod by the manifest
/// that it was created from, which lacks these fields.
pub(super) fn update(cluster: &dyn ClusterState, old: &Value, new: &mut Value) {
    add_default_tolerations(cluster, new);
    for field in ["priority", "preemptionPolicy"] {
        if let (Some(before), Some(spec)) = (tree::get(old, &["spec", field]), tree::field_mut(new, "spec")) {
            tree::default(spec, field, before.clone());
        }
    }
}

/// Name, value and preemption policy.
type ResolvedClass = (String, i64, String);

fn class(cluster: &dyn ClusterState, name: &str) -> Option<ResolvedClass> {
    let entry = cluster.newest(&Key::cluster("priorityclasses.scheduling.k8s.io", name))?;
    Some(read(entry.object.value()))
}

fn default_class(cluster: &dyn ClusterState) -> Option<ResolvedClass> {
    let classes = cluster.all(&KeyRange::resource("priorityclasses.scheduling.k8s.io"));
    let defaults = classes.iter().filter(|class| tree::is_true(class.object.value(), &["globalDefault"]));
    defaults.map(|class| read(class.object.value())).min_by_key(|(_, value, _)| *value)
}

fn read(class: &Value) -> ResolvedClass {
    let value = tree::int(class, &["value"]).unwrap_or_default();
    (class.name().to_owned(), value, tree::text(class, &["preemptionPolicy"]).to_owned())
}

/// Adds the default tolerations that the pod does not set itself.
fn add_default_tolerations(cluster: &dyn ClusterState, pod: &mut Value) {
    if !cluster.has_plugin(AdmissionPlugin::DefaultTolerationSeconds) {
        return;
    }
    let mut tolerations: List<Value> = tree::items(pod, &["spec", "tolerations"]).iter().cloned().collect();
    let before = tolerations.len();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|one| {
            let (own, effect) = (tree::text(one, &["key"]), tree::text(one, &["effect"]));
            (own == key || own.is_empty()) && matches!(effect, "" | "NoExecute")
        });
        if !is_tolerated {
            tolerations.push(tree::map([
                ("key", key.into()),
                ("operator", "Exists".into()),
                ("effect", "NoExecute".into()),
                ("tolerationSeconds", TOLERATION_SECONDS.into()),
            ]));
        }
    }
    if tolerations.len() > before {
        tree::set(pod, &["spec", "tolerations"], tolerations);
    }
}
