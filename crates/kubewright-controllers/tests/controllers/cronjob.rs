//! Cron jobs.

use std::time::Duration;

use kubewright_api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec};
use kubewright_api::core::v1::{Event, Pod};
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::{Object, Time};
use tokio::time::sleep;

use crate::job::{is_over, job};
use crate::support::Cluster;

/// A cron job that runs every minute.
fn minutely(spec: CronJobSpec) -> CronJob {
    let mut cron = CronJob { spec, ..Default::default() };
    cron.metadata.name = Some("tick".into());
    cron.spec.schedule = "* * * * *".into();
    let template = job("tick", cron.spec.job_template.spec.clone().unwrap_or_default());
    cron.spec.job_template.spec = template.spec;
    cron.spec.job_template.metadata.labels = [("of", "tick".into())].into();
    cron
}

/// Pods that do not end by themselves during the test.
fn endless() -> NodeOptions {
    NodeOptions::default().run_time(Duration::from_secs(100_000))
}

async fn jobs(cluster: &Cluster) -> Vec<Job> {
    let mut jobs: Vec<Job> = cluster.list().await;
    jobs.sort_by(|a, b| a.name().cmp(b.name()));
    jobs
}

async fn has_event(cluster: &Cluster, reason: &str) -> bool {
    // Events are written asynchronously.
    sleep(Duration::from_secs(2)).await;
    cluster.list::<Event>().await.iter().any(|event| event.reason.as_deref() == Some(reason))
}

#[tokio::test(start_paused = true)]
async fn a_job_is_created_at_each_scheduled_time_and_history_is_limited() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&minutely(CronJobSpec::default())).await;
    let first = cluster.until::<CronJob>("tick", |cron| !status(cron).active.is_empty()).await;
    let at: Time = status(&first).last_schedule_time.unwrap();
    assert_eq!(at.as_unix() % 60, 0);
    let made = cluster.list::<Job>().await.remove(0);
    assert_eq!(made.name(), format!("tick-{}", at.as_unix() / 60));
    assert_eq!(made.metadata.owner_references[0].uid, *first.uid());
    assert_eq!(made.labels().get("of"), Some("tick"));
    let annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    assert_eq!(made.annotations().get(annotation), Some(&*at.to_string()));
    let active = &status(&first).active[0];
    assert_eq!((active.kind.as_deref(), active.name.as_deref()), (Some("Job"), Some(made.name())));

    // Between two scheduled times, after the last job has ended.
    sleep(Duration::from_secs(630)).await;
    let cron = cluster.get::<CronJob>("tick").await;
    assert!(status(&cron).active.is_empty() && status(&cron).last_successful_time > Some(at));
    let last = status(&cron).last_schedule_time.unwrap().as_unix();
    assert_eq!(last - at.as_unix(), 600);
    let kept: Vec<String> = jobs(&cluster).await.iter().map(|job| job.name().to_owned()).collect();
    let want: Vec<String> = [2, 1, 0].iter().map(|back| format!("tick-{}", last / 60 - back)).collect();
    assert_eq!(kept, want, "three that succeeded");
    assert_eq!(cluster.pods().await.len(), 3);
    for reason in ["SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"] {
        assert!(has_event(&cluster, reason).await, "{reason}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_failed_job_is_kept() {
    let cluster = Cluster::with_nodes(1).await;
    let mut spec = JobSpec { backoff_limit: Some(0), ..Default::default() };
    spec.template.metadata.annotations.insert(EXIT_CODE_ANNOTATION, "1".into());
    let mut of_cron = CronJobSpec::default();
    of_cron.job_template.spec = Some(spec);
    cluster.create(&minutely(of_cron)).await;
    cluster.until::<CronJob>("tick", |cron| status(cron).last_schedule_time.is_some()).await;
    sleep(Duration::from_secs(270)).await;
    let jobs = jobs(&cluster).await;
    let failed = jobs.iter().filter(|job| is_over(job, "Failed", "BackoffLimitExceeded")).count();
    assert_eq!((jobs.len(), failed), (1, 1));
    assert_eq!(status(&cluster.get("tick").await).last_successful_time, None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_run_side_by_side_one_after_the_other_or_replace_each_other() {
    for (policy, after, reason) in
        [("Allow", 4, "SuccessfulCreate"), ("Forbid", 1, "JobAlreadyActive"), ("Replace", 1, "SuccessfulDelete")]
    {
        let cluster = Cluster::new(endless()).await;
        let spec = CronJobSpec { concurrency_policy: Some(policy.into()), ..Default::default() };
        cluster.create(&minutely(spec)).await;
        cluster.until::<CronJob>("tick", |cron| !status(cron).active.is_empty()).await;
        let first = jobs(&cluster).await.remove(0);
        sleep(Duration::from_secs(185)).await;
        let running = jobs(&cluster).await;
        assert_eq!(running.len(), after, "{policy}");
        assert_eq!(status(&cluster.get("tick").await).active.len(), after, "{policy}");
        let is_first_there = running.iter().any(|job| job.uid() == first.uid());
        assert_eq!(is_first_there, policy != "Replace", "{policy}");
        assert!(has_event(&cluster, reason).await, "{policy}");
        if policy == "Forbid" {
            // The last missed run is made up for when the previous job has ended.
            cluster.api::<Job>().delete(first.name()).await.unwrap();
            cluster
                .until::<CronJob>("tick", |cron| {
                    status(cron).active.first().is_some_and(|one| one.uid.as_deref() != Some(first.uid()))
                })
                .await;
        }
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_creates_no_jobs() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&minutely(CronJobSpec { suspend: Some(true), ..Default::default() })).await;
    sleep(Duration::from_secs(300)).await;
    assert!(jobs(&cluster).await.is_empty());
    cluster.patch::<CronJob>("tick", r#"{"spec":{"suspend":false}}"#).await;
    cluster.until::<CronJob>("tick", |cron| status(cron).last_successful_time.is_some()).await;
    // The next run may have become due.
    assert!((1..=2).contains(&jobs(&cluster).await.len()), "of those that were missed, the last only");
    // Its jobs are deleted with it.
    cluster.api::<CronJob>().delete("tick").await.unwrap();
    cluster.until_all_pods(<[Pod]>::is_empty).await;
    assert!(jobs(&cluster).await.is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_never_comes_is_reported() {
    let cluster = Cluster::with_nodes(1).await;
    let mut cron = minutely(CronJobSpec::default());
    // February 31.
    cron.spec.schedule = "59 23 31 2 *".into();
    cluster.create(&cron).await;
    assert!(has_event(&cluster, "InvalidSchedule").await);
    assert!(jobs(&cluster).await.is_empty());
    cluster.stop().await;
}

fn status(cron: &CronJob) -> kubewright_api::batch::v1::CronJobStatus {
    cron.status.clone().unwrap_or_default()
}
