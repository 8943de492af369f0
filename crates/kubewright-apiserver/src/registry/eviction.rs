//! Eviction: the deletion of a pod, if its disruption budget allows it.

use kubewright_core::meta::v1::{LabelSelector, Status, StatusCause};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Decoder, Selector, Time, Value};

use super::binding::set_condition;
use super::delete::check_preconditions;
use super::{Registry, UpdateRequest};
use crate::catalog::Resource;
use crate::object::{Meta, StoredObject, to_json, tree};
use crate::rejection::Rejection;
use crate::storage::Scope;

/// How long to wait before another try.
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
        let pod = self.get(pods, namespace, name)?.object;
        // Before anything is taken from a budget, or said of a pod that is another one.
        check_preconditions(pods, name, options, pod.value())?;
        let phase = tree::text(pod.value(), &["status", "phase"]);
        let counts = !matches!(phase, "Pending" | "Succeeded" | "Failed" | "") && !pod.value().is_being_deleted();
        let budgets = if counts { self.budgets(namespace, &pod) } else { Vec::new() };
        match &budgets[..] {
            [] => {}
            [budget] if !tree::has_condition(pod.value(), "Ready") && spares_unhealthy(budget) => {}
            [budget] => self.take_from_budget(namespace, budget, name, options.dry_run)?,
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
            // The version that was asked for is the one before this change.
            if let Some(version) = &mut options.preconditions.resource_version {
                *version = changed.value().resource_version().into();
            }
        }
        self.delete(pods, namespace, name, &options, &mut Vec::new(), None).map(|_| ())
    }

    /// The budgets that cover a pod.
    fn budgets(&self, namespace: &str, pod: &StoredObject) -> Vec<Value> {
        let all = self.all(&Scope::namespace("poddisruptionbudgets.policy", namespace));
        let covers = |budget: &Value| {
            let selector = tree::get(budget, &["spec", "selector"]);
            let selector: Option<LabelSelector> =
                selector.and_then(|selector| Decoder::new().json(&to_json(selector)).ok());
            Selector::from_label_selector(selector.as_ref()).is_ok_and(|selector| selector.matches(&pod.labels))
        };
        all.into_iter().map(|entry| entry.object.value().clone()).filter(covers).collect()
    }

    /// Takes one disruption from a budget for a pod, if it has one to give.
    fn take_from_budget(&self, namespace: &str, budget: &Value, pod: &str, dry_run: bool) -> Result<(), Rejection> {
        let name = budget.name();
        let refuse = |why: String| {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let cause = StatusCause { reason: Some("DisruptionBudget".into()), message: Some(why.into()), field: None };
            Rejection::from(Status::too_many_requests(message, RETRY_SECONDS).with_cause(cause))
        };
        let catalog = self.catalog();
        let Some(resource) = catalog.of_storage("poddisruptionbudgets.policy") else { return Ok(()) };
        let (part, origin) = (super::Part::Internal, super::Origin::Patch);
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
                return Err(refuse(format!("The disruption budget {name} is still being processed by the server.")));
            }
            let allowed = tree::int(budget, &["status", "disruptionsAllowed"]).unwrap_or_default();
            if allowed <= 0 {
                let need = tree::int(budget, &["status", "desiredHealthy"]).unwrap_or_default();
                let have = tree::int(budget, &["status", "currentHealthy"]).unwrap_or_default();
                return Err(refuse(format!(
                    "The disruption budget {name} needs {need} healthy pods and has {have} currently"
                )));
            }
            let mut budget = budget.clone();
            tree::set(&mut budget, &["status", "disruptionsAllowed"], allowed - 1);
            // Who counts healthy pods shall not count this one until it is gone.
            tree::object(&mut budget, &["status", "disruptedPods"]).insert(pod, Time::now().to_string().into());
            Ok(budget)
        })
        .map(|_| ())
    }
}

/// Whether a budget lets pods go that are not healthy: always, or as long as there are enough others.
fn spares_unhealthy(budget: &Value) -> bool {
    let count = |field: &str| tree::int(budget, &["status", field]).unwrap_or_default();
    let (healthy, wanted) = (count("currentHealthy"), count("desiredHealthy"));
    tree::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || (wanted > 0 && healthy >= wanted)
}
