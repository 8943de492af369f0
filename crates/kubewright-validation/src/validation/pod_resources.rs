//! Validates pod-level resources, which must cover the resources of the containers.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{capacity, container};
use crate::pod_totals::{containers_totals, is_pod_level_resource};

/// Validates the pod-level resources of a spec.
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
    if causes.is_empty() && !is_pod_level_resource(name) {
        return vec![StatusCause::not_supported(field, quoted(name), &["cpu", "hugepages-", "memory"])];
    }
    causes
}

fn consistency(field: &str, spec: &Value, resources: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for kind in ["requests", "limits"] {
        let totals = containers_totals(spec, kind);
        for (name, amount) in capacity::amounts(resources, &[kind]) {
            // Containers may overcommit the pod limit, except for huge pages.
            if kind == "limits" && !name.starts_with("hugepages-") {
                continue;
            }
            if let Some(total) = totals.get(&name).filter(|total| **total > amount) {
                let why = format!("must be greater than or equal to aggregate container {kind} of {total}");
                let shown = quoted(&amount.to_string());
                causes.push(StatusCause::invalid(format!("{field}.{kind}[{name}]"), shown, &why));
            }
        }
    }
    let pod_limits = capacity::amounts(resources, &["limits"]);
    for (index, container) in tree::items(spec, &["containers"]).iter().enumerate() {
        for (name, limit) in capacity::amounts(container, &["resources", "limits"]) {
            let maximum = pod_limits.binary_search_by(|(have, _)| have.cmp(&name)).ok().map(|at| &pod_limits[at].1);
            if let Some(maximum) = maximum.filter(|maximum| limit > **maximum) {
                // The path of the real server, which puts the container below the pod's resources.
                let field = format!("{field}.containers[{index}][{name}].limits");
                let why = format!("must be less than or equal to pod limits of {maximum}");
                causes.push(StatusCause::invalid(field, quoted(&limit.to_string()), &why));
            }
        }
    }
    causes
}
