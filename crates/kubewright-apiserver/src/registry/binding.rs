//! The binding subresource, by which schedulers assign pods to nodes.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str, Value};
use kubewright_net::clock;

use super::{Ownership, Registry, UpdateKind, UpdateRequest};
use crate::admission::Part;
use kubewright_objects::object::{Meta, text_map, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

impl Registry {
    /// Assigns a pod to the node that a binding names.
    pub(crate) fn bind(
        &self,
        pods: &Resource,
        namespace: &str,
        name: &str,
        binding: &Value,
        dry_run: bool,
    ) -> Result<(), Rejection> {
        let kind = tree::text(binding, &["target", "kind"]);
        if !matches!(kind, "" | "Node") {
            let why = format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
            return Err(Rejection::unexpected(why));
        }
        let node = tree::text(binding, &["target", "name"]);
        if node.is_empty() {
            return Err(Rejection::unexpected("target.name: Required value"));
        }
        let (part, origin) = (Part::Internal, UpdateKind::Patch);
        let request = UpdateRequest {
            resource: pods,
            namespace,
            name,
            part,
            origin,
            control: None,
            ownership: Ownership::Keep,
            dry_run,
        };
        let change = |pod: &Value| {
            let refused =
                |why: String| Err(Status::conflict(&GroupResource::from_static("", "pods/binding"), name, why).into());
            if !binding.uid().is_empty() && binding.uid() != pod.uid() {
                return refused(format!(
                    "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                    binding.uid(),
                    pod.uid()
                ));
            }
            if pod.is_being_deleted() {
                return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
            }
            match tree::text(pod, &["spec", "nodeName"]) {
                "" => {}
                taken => return refused(format!("pod {name} is already assigned to node {taken:?}")),
            }
            let mut pod = pod.clone();
            tree::set(&mut pod, &["spec", "nodeName"], node);
            for (key, value) in text_map(binding.meta("annotations")).iter() {
                tree::object_mut(&mut pod, &["metadata", "annotations"]).insert(key.clone(), value.clone().into());
            }
            set_condition(&mut pod, "PodScheduled", "True", &[]);
            Ok(pod)
        };
        self.update(&request, change).map(|_| ())
    }
}

/// Sets a condition of a pod. `lastTransitionTime` changes with the status only.
pub(super) fn set_condition(pod: &mut Value, kind: &str, status: &str, more: &[(&str, Str)]) {
    let conditions = tree::object_mut(pod, &["status"]).get_or_insert_with("conditions", || Value::Array([].into()));
    let Value::Array(list) = conditions else { return };
    let mut condition = tree::map([
        ("type", kind.into()),
        ("status", status.into()),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", clock::now().to_string().into()),
    ]);
    more.iter().for_each(|(field, value)| tree::set(&mut condition, &[field], value.clone()));
    match list.iter_mut().find(|have| tree::text(have, &["type"]) == kind) {
        Some(have) => {
            if tree::text(have, &["status"]) == status {
                tree::set(
                    &mut condition,
                    &["lastTransitionTime"],
                    have.get("lastTransitionTime").cloned().unwrap_or_default(),
                );
            }
            *have = condition;
        }
        None => list.push(condition),
    }
}
