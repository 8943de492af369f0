//! Jobs.

use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::Pod;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, template};

pub fn job(name: &str, spec: JobSpec) -> Job {
    let mut job = Job { spec: Some(spec), ..Default::default() };
    job.metadata.name = Some(name.into());
    let template_of_job = &mut job.spec.as_mut().unwrap().template;
    let mut template = template(name, "one:1");
    template.metadata.annotations = template_of_job.metadata.annotations.clone();
    template.spec.as_mut().unwrap().restart_policy = Some("Never".into());
    *template_of_job = template;
    job
}

pub fn is_over(job: &Job, type_: &str, reason: &str) -> bool {
    let conditions = job.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == type_ && one.status == "True" && one.reason.as_deref() == Some(reason))
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_pods_side_by_side_until_enough_have_succeeded() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&job("sum", JobSpec { parallelism: Some(3), completions: Some(7), ..Default::default() })).await;
    let most = |pods: &[Pod]| {
        pods.iter().filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).count()
    };
    cluster.until_pods(|pods| most(pods) == 3).await;
    let done = cluster.until::<Job>("sum", |job| is_over(job, "Complete", "CompletionsReached")).await;
    let status = done.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(7), None, None));
    assert!(status.completion_time >= status.start_time && status.uncounted_terminated_pods.is_none());
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 7);
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.pods().await.iter().all(|pod| pod.metadata.finalizers.is_empty()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_number_of_an_indexed_job_succeeds_once() {
    const INDEX: &str = "batch.kubernetes.io/job-completion-index";
    let cluster = Cluster::with_nodes(2).await;
    let spec = JobSpec {
        parallelism: Some(2),
        completions: Some(5),
        completion_mode: Some("Indexed".into()),
        ..Default::default()
    };
    cluster.create(&job("sum", spec)).await;
    // The lowest indexes first.
    let index = |pod: &Pod| pod.annotations().get(INDEX).unwrap().to_owned();
    let mut first: Vec<_> = cluster.until_pods(|pods| pods.len() == 2).await.iter().map(index).collect();
    first.sort();
    assert_eq!(first, ["0", "1"]);
    // A pod deleted before its end is replaced under its index, and counted as failed.
    let one = cluster.pods().await.into_iter().find(|pod| index(pod) == "1").unwrap();
    cluster.api::<Pod>().delete(one.name()).await.unwrap();
    let done = cluster.until::<Job>("sum", |job| is_over(job, "Complete", "CompletionsReached")).await;
    let status = done.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded, status.failed), (Some("0-4"), Some(5), Some(1)));
    sleep(Duration::from_secs(5)).await;
    let mut pods = cluster.pods().await;
    pods.retain(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Succeeded"));
    pods.sort_by_key(index);
    assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
    for pod in &pods {
        let (spec, index) = (pod.spec.as_ref().unwrap(), index(pod));
        assert!(pod.name().starts_with(&format!("sum-{index}-")), "{}", pod.name());
        assert_eq!(spec.hostname.as_deref(), Some(&*format!("sum-{index}")));
        assert_eq!(pod.labels().get(INDEX), Some(&*index));
        assert!(pod.metadata.finalizers.is_empty());
        let variable = &spec.containers[0].env[0];
        let field = variable.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
        assert_eq!(
            (&*variable.name, &*field.field_path),
            ("JOB_COMPLETION_INDEX", &*format!("metadata.labels['{INDEX}']"))
        );
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_too_often_is_given_up_after_growing_pauses() {
    let cluster = Cluster::with_nodes(1).await;
    let mut spec = JobSpec { backoff_limit: Some(2), ..Default::default() };
    spec.template.metadata.annotations.insert(EXIT_CODE_ANNOTATION, "3".into());
    let start = Instant::now();
    cluster.create(&job("sum", spec)).await;
    let failed = cluster.until::<Job>("sum", |job| is_over(job, "Failed", "BackoffLimitExceeded")).await;
    assert_eq!(failed.status.unwrap().failed, Some(3));
    // 10 s after the first failure, 20 s after the second.
    assert!((30..45).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_ttl() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&job("sum", JobSpec { ttl_seconds_after_finished: Some(100), ..Default::default() })).await;
    cluster.until::<Job>("sum", |job| is_over(job, "Complete", "CompletionsReached")).await;
    sleep(Duration::from_secs(90)).await;
    assert!(cluster.api::<Job>().get_opt("sum").await.unwrap().is_some());
    sleep(Duration::from_secs(20)).await;
    assert!(cluster.api::<Job>().get_opt("sum").await.unwrap().is_none());
    cluster.until_pods(<[Pod]>::is_empty).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_stops_at_its_deadline_and_while_it_is_suspended() {
    let cluster = Cluster::new(NodeOptions::default().run_time(Duration::from_secs(1000))).await;
    cluster.create(&job("late", JobSpec { active_deadline_seconds: Some(60), ..Default::default() })).await;
    cluster.until_pods(|pods| pods.len() == 1).await;
    cluster.until::<Job>("late", |job| is_over(job, "Failed", "DeadlineExceeded")).await;
    cluster.until_pods(<[Pod]>::is_empty).await;

    cluster.create(&job("later", JobSpec { suspend: Some(true), ..Default::default() })).await;
    cluster.until::<Job>("later", |job| is_over(job, "Suspended", "JobSuspended")).await;
    assert!(cluster.pods().await.is_empty());
    cluster.patch::<Job>("later", r#"{"spec":{"suspend":false}}"#).await;
    cluster.until_pods(|pods| pods.len() == 1).await;
    cluster.stop().await;
}
