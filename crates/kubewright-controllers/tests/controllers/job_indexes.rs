//! Indexed jobs with `backoffLimitPerIndex`.

use std::time::Duration;

use kubewright_api::batch::v1::{
    Job, JobSpec, JobStatus, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use kubewright_api::core::v1::Pod;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use tokio::time::{Instant, sleep};

use crate::job::{is_over, job};
use crate::support::Cluster;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Pods run long enough for the test to set their exit code.
fn slow() -> NodeOptions {
    NodeOptions::default().run_time(Duration::from_secs(2))
}

fn indexed(completions: i32, limit: i32) -> JobSpec {
    JobSpec {
        parallelism: Some(completions),
        completions: Some(completions),
        completion_mode: Some("Indexed".into()),
        backoff_limit_per_index: Some(limit),
        ..Default::default()
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.get(name).map(|text| text.as_str())
}

fn is_of(pod: &Pod, index: &str) -> bool {
    annotation(pod, INDEX) == Some(index)
}

/// Waits for the pod of an index with this failure count, and makes it fail with this code.
async fn fail(cluster: &Cluster, index: &str, count: &str, code: i32) -> Pod {
    let is_it = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        is_of(pod, index) && annotation(pod, COUNT) == Some(count) && !matches!(phase, Some("Failed" | "Succeeded"))
    };
    let pods = cluster.until_pods(|pods| pods.iter().any(is_it)).await;
    let pod = pods.into_iter().find(is_it).unwrap();
    cluster
        .patch(pod.name(), &format!(r#"{{"metadata":{{"annotations":{{"{EXIT_CODE_ANNOTATION}":"{code}"}}}}}}"#))
        .await
}

fn status(job: &Job) -> &JobStatus {
    job.status.as_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_index_beyond_its_back_off_limit_fails_and_the_others_continue() {
    let cluster = Cluster::new(slow()).await;
    let made = cluster.create(&job("sum", indexed(3, 1))).await;
    // Only failures of an index count, unless the job has its own limit.
    assert_eq!(made.spec.unwrap().backoff_limit, Some(i32::MAX));
    let first = fail(&cluster, "1", "0", 1).await;
    let start = Instant::now();
    let is_failed = |job: &Job| status(job).failed_indexes.as_deref() == Some("") && status(job).ready == Some(0);
    cluster.until::<Job>("sum", is_failed).await;
    // A failed pod is kept and not counted until its replacement has the failure count.
    sleep(Duration::from_secs(5)).await;
    let held: Pod = cluster.get(first.name()).await;
    assert_eq!(held.metadata.finalizers.len(), 1);
    assert_eq!(status(&cluster.get::<Job>("sum").await).failed, None);
    let second = fail(&cluster, "1", "1", 1).await;
    assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(annotation(&second, IGNORED), None);
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "FailedIndexes")).await;
    let end = status(&failed);
    assert_eq!((end.completed_indexes.as_deref(), end.failed_indexes.as_deref()), (Some("0,2"), Some("1")));
    assert_eq!((end.succeeded, end.failed), (Some(2), Some(2)));
    assert!(is_over(&failed, "FailureTarget", "FailedIndexes"));
    let message = end.conditions.last().unwrap().message.as_deref();
    assert_eq!(message, Some("Job has failed indexes"));
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.pods().await.iter().all(|pod| pod.metadata.finalizers.is_empty()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_beyond_max_failed_indexes_fails_immediately() {
    let cluster = Cluster::new(NodeOptions::default().run_time(Duration::from_secs(30))).await;
    let spec = JobSpec { max_failed_indexes: Some(0), parallelism: Some(2), ..indexed(5, 0) };
    cluster.create(&job("sum", spec)).await;
    fail(&cluster, "1", "0", 1).await;
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "MaxFailedIndexesExceeded")).await;
    let end = status(&failed);
    assert_eq!(end.failed_indexes.as_deref(), Some("1"));
    assert!(end.succeeded.unwrap_or_default() < 4, "the rest is not run");
    let message = end.conditions.last().unwrap().message.as_deref();
    assert_eq!(message, Some("Job has exceeded the specified maximal number of failed indexes"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_gives_a_number_up_and_another_does_not_count() {
    let cluster = Cluster::new(slow()).await;
    let rule = |action: &str, code: i32| {
        let codes = PodFailurePolicyOnExitCodesRequirement {
            operator: "In".into(),
            values: [code].into(),
            ..Default::default()
        };
        PodFailurePolicyRule { action: action.into(), on_exit_codes: Some(codes.into()), ..Default::default() }
    };
    let policy = PodFailurePolicy { rules: [rule("FailIndex", 42), rule("Ignore", 7)].into() };
    let spec = JobSpec { pod_failure_policy: Some(policy.into()), ..indexed(2, 3) };
    cluster.create(&job("sum", spec)).await;
    fail(&cluster, "0", "0", 42).await;
    fail(&cluster, "1", "0", 7).await;
    let is_again = |pod: &Pod| is_of(pod, "1") && annotation(pod, IGNORED) == Some("1");
    let pods = cluster.until_pods(|pods| pods.iter().any(is_again)).await;
    let again = pods.into_iter().find(is_again).unwrap();
    assert_eq!(annotation(&again, COUNT), Some("0"));
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "FailedIndexes")).await;
    let end = status(&failed);
    assert_eq!((end.completed_indexes.as_deref(), end.failed_indexes.as_deref()), (Some("1"), Some("0")));
    assert_eq!(end.failed, Some(1), "what is ignored is not counted");
    let of_first = cluster.pods().await.iter().filter(|pod| is_of(pod, "0")).count();
    assert_eq!(of_first, 1, "what is given up is not tried again");
    cluster.stop().await;
}
