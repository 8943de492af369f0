//! Jobs with policies, and jobs managed by another controller.

use std::time::Duration;

use kubewright_api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
    SuccessPolicyRule,
};
use kubewright_api::core::v1::Pod;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use tokio::time::sleep;

use crate::job::{is_over, job};
use crate::support::Cluster;

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// A job whose pods fail with an exit code that has a rule.
fn failing(code: i32, action: &str, backoff_limit: i32) -> Job {
    let codes =
        PodFailurePolicyOnExitCodesRequirement { operator: "In".into(), values: [code].into(), ..Default::default() };
    let rule = PodFailurePolicyRule { action: action.into(), on_exit_codes: Some(codes.into()), ..Default::default() };
    let policy = PodFailurePolicy { rules: [rule].into() };
    let mut spec =
        JobSpec { backoff_limit: Some(backoff_limit), pod_failure_policy: Some(policy.into()), ..Default::default() };
    spec.template.metadata.annotations.insert(EXIT_CODE_ANNOTATION, code.to_string().into());
    job("sum", spec)
}

#[tokio::test(start_paused = true)]
async fn a_job_managed_by_another_controller_is_ignored() {
    let cluster = Cluster::with_nodes(1).await;
    let managed_by = |manager: &str| JobSpec { managed_by: Some(manager.into()), ..Default::default() };
    cluster.create(&job("theirs", managed_by("example.com/queue"))).await;
    cluster.create(&job("ours", managed_by("kubernetes.io/job-controller"))).await;
    cluster.until::<Job>("ours", |job| is_over(job, "Complete", "CompletionsReached")).await;
    sleep(Duration::from_secs(600)).await;
    assert!(cluster.list::<Pod>().await.iter().all(|pod| pod.name().starts_with("ours-")));
    let theirs = cluster.get::<Job>("theirs").await.status.unwrap_or_default();
    assert_eq!((theirs.start_time, theirs.ready, theirs.conditions.len()), (None, None, 0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fail_job_rule_fails_the_job_immediately() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&failing(42, "FailJob", 6)).await;
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "PodFailurePolicy")).await;
    let pods = cluster.list::<Pod>().await;
    assert_eq!((pods.len(), failed.status.as_ref().unwrap().failed), (1, Some(1)));
    let message = failed.status.unwrap().conditions.last().unwrap().message.clone().unwrap();
    let name = pods[0].name();
    let want =
        format!("Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0");
    assert_eq!(message, *want);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_to_be_ignored_does_not_count() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&failing(7, "Ignore", 0)).await;
    let pods = cluster.until_all_pods(|pods| pods.iter().filter(|pod| phase(pod) == "Failed").count() == 3).await;
    let status = cluster.get::<Job>("sum").await.status.unwrap();
    assert_eq!((status.failed, status.conditions.len()), (None, 0), "{status:#?}");
    sleep(Duration::from_secs(1)).await;
    for pod in pods {
        assert!(cluster.get::<Pod>(pod.name()).await.metadata.finalizers.is_empty(), "none is held");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_has_succeeded_when_enough_of_its_numbers_have() {
    let options = NodeOptions::default().stop_delay(Duration::from_secs(20)).run_time(Duration::from_secs(5));
    let cluster = Cluster::new(options).await;
    let rule = SuccessPolicyRule { succeeded_indexes: Some("0-1".into()), succeeded_count: Some(1) };
    let spec = JobSpec {
        parallelism: Some(1),
        completions: Some(4),
        completion_mode: Some("Indexed".into()),
        success_policy: Some(SuccessPolicy { rules: [rule].into() }.into()),
        ..Default::default()
    };
    cluster.create(&job("sum", spec)).await;
    let decided = cluster.until::<Job>("sum", |job| is_over(job, "SuccessCriteriaMet", "SuccessPolicy")).await;
    let message = decided.status.unwrap().conditions[0].message.clone();
    assert_eq!(message.as_deref(), Some("Matched rules at index 0"));
    let done = cluster.until::<Job>("sum", |job| is_over(job, "Complete", "SuccessPolicy")).await;
    let status = done.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded, status.failed), (Some("0"), Some(1), None));
    assert_eq!((status.active, status.terminating), (None, Some(0)));
    assert!(cluster.list::<Pod>().await.iter().all(|pod| phase(pod) == "Succeeded"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pod_replacement_policy_failed_waits_for_the_end_of_the_pod() {
    let run_time = Duration::from_secs(100_000);
    let cluster = Cluster::new(NodeOptions::default().run_time(run_time).stop_delay(Duration::from_secs(20))).await;
    let spec = JobSpec { pod_replacement_policy: Some("Failed".into()), ..Default::default() };
    cluster.create(&job("sum", spec)).await;
    let first = cluster.until_pods(|pods| pods.first().is_some_and(|pod| phase(pod) == "Running")).await.remove(0);
    cluster.api::<Pod>().delete(first.name()).await.unwrap();
    let terminating = |job: &Job| job.status.as_ref().unwrap().terminating;
    let waiting = cluster.until::<Job>("sum", |job| terminating(job) == Some(1)).await;
    let status = waiting.status.unwrap();
    assert_eq!((status.active, status.failed, status.uncounted_terminated_pods), (None, None, None));
    sleep(Duration::from_secs(15)).await;
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 1, "none comes before the other has gone");
    assert!(pods[0].is_being_deleted() && phase(&pods[0]) == "Running");
    let second = cluster.until_pods(|pods| pods.len() == 1).await.remove(0);
    assert_ne!(second.uid(), first.uid());
    assert_eq!(cluster.get::<Job>("sum").await.status.unwrap().terminating, Some(0));
    let status =
        cluster.until::<Job>("sum", |job| job.status.as_ref().unwrap().failed == Some(1)).await.status.unwrap();
    assert_eq!(status.active, Some(1));
    assert!(cluster.list::<Pod>().await.iter().all(|pod| pod.uid() == second.uid()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_had_a_node_is_not_waited_for() {
    let cluster = Cluster::with_nodes(0).await;
    let spec = JobSpec { pod_replacement_policy: Some("Failed".into()), ..Default::default() };
    cluster.create(&job("sum", spec)).await;
    let first = cluster.until_pods(|pods| pods.len() == 1).await.remove(0);
    cluster.api::<Pod>().delete(first.name()).await.unwrap();
    let pods = cluster.until_all_pods(|pods| pods.len() == 1 && pods[0].uid() != first.uid()).await;
    assert!(!pods[0].is_being_deleted());
    cluster.stop().await;
}
