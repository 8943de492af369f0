//! The pods of a job, and its back-off.

use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::{Event, Pod};
use kubewright_apiserver::Fault;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use tokio::time::{Instant, sleep};

use crate::job::{is_over, job};
use crate::support::{Cluster, labels, template};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

fn endless() -> NodeOptions {
    NodeOptions::default().run_time(Duration::from_secs(100_000))
}

fn is_held(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

fn owner(pod: &Pod) -> Option<&str> {
    pod.metadata.owner_references.first().map(|owner| owner.uid.as_str())
}

#[tokio::test(start_paused = true)]
async fn matching_pods_are_adopted_and_others_released() {
    let cluster = Cluster::new(endless()).await;
    let mut orphan = Pod { spec: template("sum", "one:1").spec, ..Default::default() };
    orphan.metadata.name = Some("orphan".into());
    orphan.metadata.labels = labels("sum");
    cluster.create(&orphan).await;
    let selector = LabelSelector { match_labels: labels("sum"), ..Default::default() };
    let spec = JobSpec {
        parallelism: Some(2),
        completions: Some(2),
        manual_selector: Some(true),
        selector: Some(selector.into()),
        ..Default::default()
    };
    let sum = cluster.create(&job("sum", spec)).await;
    let adopted = cluster.until::<Pod>("orphan", |pod| owner(pod) == Some(sum.uid())).await;
    assert!(is_held(&adopted));
    cluster.until::<Job>("sum", |job| job.status.as_ref().unwrap().active == Some(2)).await;
    assert_eq!(cluster.pods().await.len(), 2, "one beside the other");

    cluster.patch::<Pod>("orphan", r#"{"metadata":{"labels":{"app":"other"}}}"#).await;
    let released = cluster.until::<Pod>("orphan", |pod| owner(pod).is_none()).await;
    assert!(!is_held(&released) && !released.is_being_deleted());
    cluster.until_pods(|pods| pods.iter().filter(|pod| owner(pod) == Some(sum.uid())).count() == 2).await;
    assert_eq!(cluster.get::<Job>("sum").await.status.unwrap().failed, None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphaning_deletion_of_a_job_releases_its_pods() {
    let cluster = Cluster::new(endless()).await;
    cluster.create(&job("sum", JobSpec { parallelism: Some(3), ..Default::default() })).await;
    cluster.until_pods(|pods| pods.len() == 3 && pods.iter().all(is_held)).await;
    let orphan = DeleteOptions::default().propagation(PropagationPolicy::Orphan);
    cluster.api::<Job>().delete_with("sum", &orphan).await.unwrap();
    let pods = cluster.until_pods(|pods| pods.iter().all(|pod| owner(pod).is_none() && !is_held(pod))).await;
    assert_eq!(pods.len(), 3);
    // Without the finalizer it can be deleted.
    for pod in pods {
        cluster.api::<Pod>().delete(pod.name()).await.unwrap();
    }
    cluster.until_all_pods(<[Pod]>::is_empty).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_replaced_after_a_back_off() {
    let cluster = Cluster::new(endless()).await;
    cluster.create(&job("sum", JobSpec::default())).await;
    let first = cluster.until_pods(|pods| pods.len() == 1).await.remove(0);
    let start = Instant::now();
    cluster.api::<Pod>().delete(first.name()).await.unwrap();
    cluster.until_all_pods(<[Pod]>::is_empty).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    cluster.until_pods(|pods| pods.len() == 1).await;
    assert!((9..13).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_success_ends_the_pauses_after_failures() {
    let cluster = Cluster::new(NodeOptions::default().run_time(Duration::from_secs(2))).await;
    cluster.create(&job("sum", JobSpec { completions: Some(3), ..Default::default() })).await;
    let first = cluster.until_pods(|pods| pods.len() == 1).await.remove(0);
    let fail = format!(r#"{{"metadata":{{"annotations":{{"{EXIT_CODE_ANNOTATION}":"1"}}}}}}"#);
    cluster.patch::<Pod>(first.name(), &fail).await;
    let succeeded = |count| move |job: &Job| job.status.as_ref().unwrap().succeeded == Some(count);
    cluster.until::<Job>("sum", succeeded(1)).await;
    let start = Instant::now();
    cluster.until::<Job>("sum", |job| is_over(job, "Complete", "CompletionsReached")).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(cluster.get::<Job>("sum").await.status.unwrap().failed, Some(1));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_creation_is_recorded_as_an_event() {
    let cluster = Cluster::new(endless()).await;
    cluster.faults().inject(Fault::answer(403).verb("create").resource("pods"));
    cluster.create(&job("sum", JobSpec::default())).await;
    let start = Instant::now();
    let is_told = |event: &Event| {
        event.reason.as_deref() == Some("FailedCreate") && event.involved_object.kind.as_deref() == Some("Job")
    };
    while !cluster.list::<Event>().await.iter().any(is_told) {
        assert!(start.elapsed() < Duration::from_secs(600));
        sleep(Duration::from_millis(100)).await;
    }
    cluster.stop().await;
}
