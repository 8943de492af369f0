//! What a pod asks for as a whole: as much at least as its containers do.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::super::defaulting::pod_amounts::is_for_pods;
use super::super::limits::containers_total;
use super::metadata::quoted;
use super::{capacity, container};
use crate::object::tree;

/// What is wrong with what a pod with this specification asks for.
pub(super) fn whole(field: &str, spec: &Value) -> Vec<StatusCause> {
    let Some(resources) = spec.get("resources") else { return Vec::new() };
    if tree::text(spec, &["os", "name"]) == "windows" {
        return vec![StatusCause::forbidden(field, "may not be set for a windows pod")];
    }
    let mut causes = Vec::new();
    if !tree::items(resources, &["claims"]).is_empty() {
        let why = "claims cannot be set for Resources at pod-level";
        causes.push(StatusCause::forbidden(format!("{field}.claims"), why));
    }
    causes.extend(container::requirements(field, resources, name));
    causes.extend(consistency(field, spec, resources));
    causes
}

fn name(field: &str, name: &str) -> Vec<StatusCause> {
    let causes = container::any_resource_name(field, name);
    if causes.is_empty() && !is_for_pods(name) {
        return vec![StatusCause::not_supported(field, quoted(name), &["cpu", "hugepages-", "memory"])];
    }
    causes
}

fn consistency(field: &str, spec: &Value, resources: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for kind in ["requests", "limits"] {
        for (name, amount) in capacity::amounts(resources, &[kind]) {
            // Containers may share a limit, unless it is one of pages.
            if kind == "limits" && !name.starts_with("hugepages-") {
                continue;
            }
            if let Some(total) = containers_total(spec, kind, &name).filter(|total| *total > amount) {
                let why = format!("must be greater than or equal to aggregate container {kind} of {total}");
                let shown = quoted(&amount.to_string());
                causes.push(StatusCause::invalid(format!("{field}.{kind}[{name}]"), shown, &why));
            }
        }
    }
    let of_pod = capacity::amounts(resources, &["limits"]);
    for (index, container) in tree::items(spec, &["containers"]).iter().enumerate() {
        for (name, limit) in capacity::amounts(container, &["resources", "limits"]) {
            let most = of_pod.binary_search_by(|(have, _)| have.cmp(&name)).ok().map(|at| &of_pod[at].1);
            if let Some(most) = most.filter(|most| limit > **most) {
                // The server looks for the container in the resources of the pod.
                let field = format!("{field}.containers[{index}][{name}].limits");
                let why = format!("must be less than or equal to pod limits of {most}");
                causes.push(StatusCause::invalid(field, quoted(&limit.to_string()), &why));
            }
        }
    }
    causes
}
