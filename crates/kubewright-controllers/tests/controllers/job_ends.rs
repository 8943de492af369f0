//! Jobs whose pods are deleted, keep failing, or have no time to end.

use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::Pod;
use kubewright_apiserver::Fault;
use kubewright_client::Api;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use kubewright_core::options::{DeleteOptions, Patch, PropagationPolicy};
use tokio::time::sleep;

use crate::job::{is_over, job};
use crate::support::Cluster;

/// Pods that do not end by themselves during the test.
fn endless() -> NodeOptions {
    NodeOptions::default().run_time(Duration::from_secs(100_000))
}

fn running(pods: &[Pod]) -> usize {
    pods.iter().filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).count()
}

fn has_condition(job: &Job, type_: &str) -> bool {
    job.status.as_ref().unwrap().conditions.iter().any(|one| one.type_ == type_ && one.status == "True")
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_job_does_not_need_have_not_failed() {
    let cluster = Cluster::new(endless()).await;
    // More than the limit of failures, which is 6.
    cluster.create(&job("sum", JobSpec { parallelism: Some(8), completions: Some(8), ..Default::default() })).await;
    cluster.until_pods(|pods| running(pods) == 8).await;

    cluster.patch::<Job>("sum", r#"{"spec":{"suspend":true}}"#).await;
    cluster.until::<Job>("sum", |job| is_over(job, "Suspended", "JobSuspended")).await;
    cluster.until_all_pods(<[Pod]>::is_empty).await;
    sleep(Duration::from_secs(60)).await;
    let status = cluster.get::<Job>("sum").await.status.unwrap();
    assert_eq!((status.failed, status.active, status.terminating), (None, None, Some(0)), "{status:#?}");
    assert_eq!(status.conditions.len(), 1, "{status:#?}");

    cluster.patch::<Job>("sum", r#"{"spec":{"suspend":false}}"#).await;
    cluster.until_pods(|pods| running(pods) == 8).await;
    cluster.patch::<Job>("sum", r#"{"spec":{"parallelism":1}}"#).await;
    cluster.until_all_pods(|pods| pods.len() == 1).await;
    sleep(Duration::from_secs(60)).await;
    let status = cluster.get::<Job>("sum").await.status.unwrap();
    assert_eq!((status.failed, status.active), (None, Some(1)), "{status:#?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_container_restarts_fail_a_job() {
    let cluster = Cluster::with_nodes(1).await;
    let mut spec = JobSpec { backoff_limit: Some(3), ..Default::default() };
    spec.template.metadata.annotations.insert(EXIT_CODE_ANNOTATION, "1".into());
    let mut again = job("sum", spec);
    again.spec.as_mut().unwrap().template.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
    cluster.create(&again).await;
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "BackoffLimitExceeded")).await;
    // One pod, whose containers failed as often as allowed.
    assert_eq!(failed.status.unwrap().failed, Some(1));
    cluster.until_all_pods(<[Pod]>::is_empty).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_has_failed_only_when_its_pods_have_stopped_and_are_counted() {
    let cluster = Cluster::new(endless().stop_delay(Duration::from_secs(20))).await;
    let spec = JobSpec { parallelism: Some(3), active_deadline_seconds: Some(10), ..Default::default() };
    cluster.create(&job("sum", spec)).await;
    cluster.until_pods(|pods| running(pods) == 3).await;
    let decided = cluster.until::<Job>("sum", |job| is_over(job, "FailureTarget", "DeadlineExceeded")).await;
    assert!(!has_condition(&decided, "Failed"), "{:#?}", decided.status);
    let status = decided.status.unwrap();
    assert_eq!((status.active, status.terminating), (None, Some(3)));
    assert_eq!(cluster.list::<Pod>().await.len(), 3, "they are given their time");
    let failed = cluster.until::<Job>("sum", |job| has_condition(job, "Failed")).await;
    assert!(cluster.list::<Pod>().await.is_empty());
    let status = failed.status.unwrap();
    assert_eq!((status.failed, status.active, status.terminating), (Some(3), None, Some(0)), "{status:#?}");
    assert_eq!(status.uncounted_terminated_pods, None);
    let types: Vec<_> = status.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["FailureTarget", "Failed"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_recreated_job_lose_their_finalizer() {
    let cluster = Cluster::new(endless()).await;
    let first = cluster.create(&job("sum", JobSpec::default())).await;
    cluster.until_pods(|pods| running(pods) == 1).await;
    // The controllers have never seen that there was no job in between.
    let cluster = cluster
        .while_away(endless(), async |client| {
            let jobs = Api::<Job>::namespaced(client, "default");
            let background = DeleteOptions::default().propagation(PropagationPolicy::Background);
            jobs.delete_with("sum", &background).await.unwrap();
            jobs.create(&job("sum", JobSpec::default())).await.unwrap();
        })
        .await;
    let owner = |pod: &Pod| pod.metadata.owner_references[0].uid.clone();
    let pods =
        cluster.until_all_pods(|pods| running(pods) == 1 && pods.iter().all(|pod| owner(pod) != *first.uid())).await;
    assert_eq!(owner(&pods[0]), *cluster.get::<Job>("sum").await.uid());
    assert_eq!(cluster.get::<Job>("sum").await.status.unwrap().failed, None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_end_is_counted_once_on_a_server_that_fails() {
    let cluster = Cluster::with_nodes(2).await;
    for (verb, code, share) in
        [("create", 500, 0.2), ("update", 409, 0.2), ("update", 500, 0.1), ("delete", 500, 0.2), ("patch", 500, 0.2)]
    {
        cluster.faults().inject(Fault::answer(code).verb(verb).probability(share));
    }
    let sum = job("sum", JobSpec { parallelism: Some(4), completions: Some(12), ..Default::default() });
    while cluster.api::<Job>().create(&sum).await.is_err() {}
    cluster.until_pods(|pods| running(pods) == 4).await;
    // Active pods are deleted, and do not count as failed.
    let suspend = |word: bool| Patch::Merge(format!(r#"{{"spec":{{"suspend":{word}}}}}"#).into_bytes());
    while cluster.api::<Job>().patch("sum", suspend(true)).await.is_err() {}
    cluster.until::<Job>("sum", |job| is_over(job, "Suspended", "JobSuspended")).await;
    while cluster.api::<Job>().patch("sum", suspend(false)).await.is_err() {}
    let done = cluster.until::<Job>("sum", |job| is_over(job, "Complete", "CompletionsReached")).await;
    let status = done.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(12), None, None), "{status:#?}");
    cluster.stop().await;
}
