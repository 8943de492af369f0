//! The pod failure policy of a job.
//!
//! The first matching rule decides: `FailJob` ends the job, `FailIndex` fails the pod's index,
//! `Ignore` does not count the failure, `Count` counts it, which is the default.

use std::sync::Arc;

use kubewright_api::batch::v1::{JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};
use kubewright_api::core::v1::{ContainerStatus, Pod, PodStatus};
use kubewright_core::Object;

use super::tracking::is_failed;

/// Why a job has failed by its policy, if it has.
#[doc(alias = "getFailJobMessage")]
pub(super) fn failure(spec: &JobSpec, pods: &[Arc<Pod>]) -> Option<String> {
    spec.pod_failure_policy.as_ref()?;
    let failed = pods.iter().filter(|pod| is_failed(pod, spec));
    failed.filter_map(|pod| matching(spec, pod)).find(|(rule, _)| rule.action == "FailJob").map(|(_, why)| why)
}

/// Whether the failure of a pod counts.
pub(super) fn is_counted(spec: &JobSpec, pod: &Pod) -> bool {
    matching(spec, pod).is_none_or(|(rule, _)| rule.action != "Ignore")
}

/// Whether the index of a pod fails with it.
pub(super) fn fails_index(spec: &JobSpec, pod: &Pod) -> bool {
    matching(spec, pod).is_some_and(|(rule, _)| rule.action == "FailIndex")
}

/// The first rule that matches a pod, and why.
#[doc(alias = "matchPodFailurePolicy")]
fn matching<'a>(spec: &'a JobSpec, pod: &Pod) -> Option<(&'a PodFailurePolicyRule, String)> {
    let (rules, status) = (&spec.pod_failure_policy.as_ref()?.rules, pod.status.as_ref()?);
    rules.iter().enumerate().find_map(|(number, rule)| {
        let what = match &rule.on_exit_codes {
            Some(wanted) => {
                let (container, code) = exit(wanted, status)?;
                format!("Container {container} for pod {} failed with exit code {code}", pod.key())
            }
            None => format!("Pod {} has condition {}", pod.key(), condition(rule, status)?),
        };
        Some((rule, format!("{what} matching {} rule at index {number}", rule.action)))
    })
}

/// The first container with a matching exit code.
#[doc(alias = "matchOnExitCodes")]
fn exit<'a>(wanted: &PodFailurePolicyOnExitCodesRequirement, status: &'a PodStatus) -> Option<(&'a str, i32)> {
    let code = |container: &ContainerStatus| Some(container.state.as_ref()?.terminated.as_ref()?.exit_code);
    let is_wanted = |container: &ContainerStatus, code: i32| {
        let is_listed = wanted.values.contains(&code);
        let matches = match &*wanted.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        // A successful container never matches.
        matches && code != 0 && wanted.container_name.as_ref().is_none_or(|name| *name == container.name)
    };
    let mut containers = status.container_statuses.iter().chain(status.init_container_statuses.iter());
    containers.find_map(|container| {
        code(container).filter(|code| is_wanted(container, *code)).map(|code| (&*container.name, code))
    })
}

/// The first matching condition of the pod.
#[doc(alias = "matchOnPodConditions")]
fn condition<'a>(rule: &PodFailurePolicyRule, status: &'a PodStatus) -> Option<&'a str> {
    let is_wanted = |type_: &str, word: &str| {
        let patterns = &rule.on_pod_conditions;
        patterns.iter().any(|pattern| pattern.type_ == type_ && pattern.status.as_deref().unwrap_or("True") == word)
    };
    let found = status.conditions.iter().find(|condition| is_wanted(&condition.type_, &condition.status));
    found.map(|condition| &*condition.type_)
}

#[cfg(test)]
mod tests {
    use kubewright_api::batch::v1::{PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern};
    use kubewright_api::core::v1::{ContainerState, ContainerStateTerminated, PodCondition};

    use super::*;

    fn on_codes(action: &str, container: Option<&str>, operator: &str, values: &[i32]) -> PodFailurePolicyRule {
        let wanted = PodFailurePolicyOnExitCodesRequirement {
            container_name: container.map(Into::into),
            operator: operator.into(),
            values: values.iter().copied().collect(),
        };
        PodFailurePolicyRule { action: action.into(), on_exit_codes: Some(wanted.into()), ..Default::default() }
    }

    fn on_condition(action: &str, type_: &str) -> PodFailurePolicyRule {
        let pattern = PodFailurePolicyOnPodConditionsPattern { type_: type_.into(), status: None };
        PodFailurePolicyRule { action: action.into(), on_pod_conditions: [pattern].into(), ..Default::default() }
    }

    fn spec(rules: &[PodFailurePolicyRule]) -> JobSpec {
        let policy = PodFailurePolicy { rules: rules.iter().cloned().collect() };
        JobSpec { pod_failure_policy: Some(policy.into()), ..Default::default() }
    }

    /// A failed pod whose containers `init` and `main` ended with these codes, or not at all.
    fn pod(init: Option<i32>, main: Option<i32>) -> Pod {
        let container = |name: &str, code: Option<i32>| {
            let ended = code.map(|exit_code| ContainerStateTerminated { exit_code, ..Default::default() }.into());
            let state = ContainerState { terminated: ended, ..Default::default() };
            ContainerStatus { name: name.into(), state: Some(state), ..Default::default() }
        };
        let mut pod = Pod::default();
        pod.metadata.name = Some("p".into());
        pod.metadata.namespace = Some("n".into());
        let status: &mut PodStatus = pod.status.get_or_insert_default();
        status.phase = Some("Failed".into());
        status.init_container_statuses = [container("init", init)].into();
        status.container_statuses = [container("main", main)].into();
        pod
    }

    #[test]
    fn the_first_rule_that_matches_an_exit_code_decides() {
        let rules = [
            on_codes("FailJob", Some("main"), "In", &[42]),
            on_codes("Count", None, "In", &[7]),
            on_codes("Ignore", None, "NotIn", &[0, 1]),
        ];
        let spec = spec(&rules);
        for (init, main, fails, is_told) in [
            (Some(0), Some(42), true, true),
            // Only the named container.
            (Some(42), Some(0), false, false),
            (Some(0), Some(7), false, true),
            (Some(0), Some(9), false, false),
            (Some(9), None, false, false),
            (Some(0), Some(1), false, true),
            // Success never matches.
            (Some(0), Some(0), false, true),
            (None, None, false, true),
        ] {
            let pod = Arc::new(pod(init, main));
            let got = (failure(&spec, std::slice::from_ref(&pod)).is_some(), is_counted(&spec, &pod));
            assert_eq!(got, (fails, is_told), "{init:?} {main:?}");
        }
        assert_eq!(
            failure(&spec, &[Arc::new(pod(Some(0), Some(42)))]).as_deref(),
            Some("Container main for pod n/p failed with exit code 42 matching FailJob rule at index 0")
        );
    }

    #[test]
    fn the_first_matching_failure_rule_applies() {
        let spec = spec(&[on_condition("Ignore", "DisruptionTarget"), on_condition("FailJob", "ConfigIssue")]);
        let with = |type_: &str, status: &str| {
            let mut pod = pod(None, Some(1));
            let condition = PodCondition { type_: type_.into(), status: status.into(), ..Default::default() };
            pod.status.as_mut().unwrap().conditions.push(condition);
            Arc::new(pod)
        };
        assert!(!is_counted(&spec, &with("DisruptionTarget", "True")));
        assert!(is_counted(&spec, &with("DisruptionTarget", "False")));
        assert_eq!(
            failure(&spec, &[with("ConfigIssue", "True")]).as_deref(),
            Some("Pod n/p has condition ConfigIssue matching FailJob rule at index 1")
        );
        // A pod that has not failed does not match.
        let mut running = (*with("ConfigIssue", "True")).clone();
        running.status.as_mut().unwrap().phase = Some("Running".into());
        assert_eq!(failure(&spec, &[Arc::new(running)]), None);
        assert!(is_counted(&JobSpec::default(), &with("DisruptionTarget", "True")));
    }
}
