//! The eviction subresource: deletes a pod if its disruption budget allows it.

use kubewright_core::meta::v1::{LabelSelector, Status, StatusCause};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Decoder, Selector, Value};
use kubewright_net::clock;

use super::binding::set_condition;
use super::delete::check_preconditions;
use super::{Registry, UpdateRequest};
use crate::admission::Part;
use kubewright_objects::object::{Meta, StoredObject, to_json, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::KeyRange;

/// `Retry-After` of an eviction that waits for the controller of its budget. An exhausted budget
/// has none, since nothing tells when it allows a disruption again.
const RETRY_SECONDS: i32 = 10;

impl Registry {
    /// Evicts a pod.
    pub(crate) fn evict(
        &self,
        pods: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Rejection> {
        let pod = self.newest(pods, namespace, name)?.object;
        // Check this first, before the budget is charged for a different pod.
        let value = &*pod.tree();
        check_preconditions(pods, name, options, value)?;
        let phase = tree::text(value, &["status", "phase"]);
        let counts = !matches!(phase, "Pending" | "Succeeded" | "Failed" | "") && !value.is_being_deleted();
        let budgets = if counts { self.budgets(namespace, &pod) } else { Vec::new() };
        match &budgets[..] {
            [] => {}
            [budget] if !tree::has_condition(value, "Ready") && allows_unhealthy(budget) => {}
            [budget] => self.charge_budget(namespace, budget, name, options.dry_run)?,
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Rejection::unexpected(why));
            }
        }
        let mut options = options.clone();
        if !options.dry_run {
            let changed = self.change(pods, namespace, name, |pod| {
                check_preconditions(pods, name, &options, pod)?;
                let mut pod = pod.clone();
                let message = "Eviction API: evicting".into();
                let more = [("reason", "EvictionByEvictionAPI".into()), ("message", message)];
                set_condition(&mut pod, "DisruptionTarget", "True", &more);
                Ok(pod)
            })?;
            // Setting the condition above created a new version.
            if let Some(version) = &mut options.preconditions.resource_version {
                *version = changed.tree().resource_version().into();
            }
        }
        self.delete(pods, namespace, name, &options, &mut Vec::new(), None).map(|_| ())
    }

    /// The disruption budgets that select a pod.
    fn budgets(&self, namespace: &str, pod: &StoredObject) -> Vec<Value> {
        let all = self.all(&KeyRange::namespace("poddisruptionbudgets.policy", namespace));
        let covers = |budget: &Value| {
            let selector = tree::get(budget, &["spec", "selector"]);
            let selector: Option<LabelSelector> =
                selector.and_then(|selector| Decoder::new().json(&to_json(selector)).ok());
            Selector::from_label_selector(selector.as_ref()).is_ok_and(|selector| selector.matches(&pod.labels))
        };
        all.into_iter().map(|entry| entry.object.tree().into_owned()).filter(covers).collect()
    }

    /// Takes one disruption from a budget, or rejects the eviction.
    fn charge_budget(&self, namespace: &str, budget: &Value, pod: &str, dry_run: bool) -> Result<(), Rejection> {
        let name = budget.name();
        let refuse = |why: String, retry_seconds| {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let cause = StatusCause { reason: Some("DisruptionBudget".into()), message: Some(why.into()), field: None };
            Rejection::from(Status::too_many_requests(message, retry_seconds).with_cause(cause))
        };
        let catalog = self.catalog();
        let Some(resource) = catalog.of_storage("poddisruptionbudgets.policy") else { return Ok(()) };
        let (part, origin) = (Part::Internal, super::UpdateKind::Patch);
        let request = UpdateRequest {
            resource,
            namespace,
            name,
            part,
            origin,
            control: None,
            ownership: super::Ownership::Keep,
            dry_run,
        };
        self.update(&request, |budget| {
            if tree::int(budget, &["status", "observedGeneration"]).unwrap_or_default() < budget.generation() {
                let why = format!("The disruption budget {name} is still being processed by the server.");
                return Err(refuse(why, RETRY_SECONDS));
            }
            let allowed = tree::int(budget, &["status", "disruptionsAllowed"]).unwrap_or_default();
            if allowed <= 0 {
                let need = tree::int(budget, &["status", "desiredHealthy"]).unwrap_or_default();
                let have = tree::int(budget, &["status", "currentHealthy"]).unwrap_or_default();
                let why = format!("The disruption budget {name} needs {need} healthy pods and has {have} currently");
                return Err(refuse(why, 0));
            }
            let mut budget = budget.clone();
            tree::set(&mut budget, &["status", "disruptionsAllowed"], allowed - 1);
            // The controller skips this pod when it counts healthy ones.
            tree::object_mut(&mut budget, &["status", "disruptedPods"]).insert(pod, clock::now().to_string().into());
            Ok(budget)
        })
        .map(|_| ())
    }
}

/// Whether the budget allows the eviction of unhealthy pods: always, or while enough are healthy.
fn allows_unhealthy(budget: &Value) -> bool {
    let count = |field: &str| tree::int(budget, &["status", field]).unwrap_or_default();
    let (healthy, wanted) = (count("currentHealthy"), count("desiredHealthy"));
    tree::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || (wanted > 0 && healthy >= wanted)
}
