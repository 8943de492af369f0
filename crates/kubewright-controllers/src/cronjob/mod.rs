//! Cron jobs: jobs on a schedule.
//!
//! Start at `Reconcile::sync`; `schedule` parses schedules, `timing` finds the due time, and `jobs`
//! tracks the jobs. A schedule without a time zone is in UTC.

mod jobs;
mod schedule;
mod timing;

use std::sync::Arc;

use jiff::tz::TimeZone;
use kubewright_api::batch::v1::{CronJob, Job};
use kubewright_cache::{Event, InformerHandle};
use kubewright_client::{Api, Client};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector, Time, owner};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::{Error, is_namespace_terminating};
use crate::indices;
use crate::own_writes::{CACHE_TIMEOUT, OwnWrites};
use crate::owner_events::owners_of;
use crate::worker::{self, Reconcile, Synced, work};
use kubewright_client::clock;
use schedule::Schedule;
use timing::timing;

const KIND: GroupVersionKind = GroupVersionKind::from_static("batch", "v1", "CronJob");

struct CronJobs {
    client: Client,
    crons: InformerHandle<CronJob>,
    jobs: InformerHandle<Job>,
    own_crons: OwnWrites,
    own_jobs: OwnWrites,
    events: EventRecorder,
}

/// Creates jobs on schedule until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "CronJobController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, CronJobs::NAME);
    let (crons, jobs) = (factory.informer::<CronJob>(), factory.informer::<Job>());
    indices::by_controller(&jobs);
    let reconcile = Arc::new(CronJobs {
        client: client.clone(),
        crons: crons.clone(),
        jobs: jobs.clone(),
        own_crons: OwnWrites::default(),
        own_jobs: OwnWrites::default(),
        events: context.recorder("cronjob-controller"),
    });
    let of_crons = crons.add_handler({
        let queue = queue.clone();
        move |event: &Event<CronJob>| queue.add(event.key())
    })?;
    let of_jobs = jobs.add_handler({
        let (queue, crons) = (queue.clone(), crons.lister());
        // Jobs are never adopted by labels.
        let nothing = |_: &CronJob| None::<Selector>;
        move |event: &Event<Job>| owners_of(event, &crons, "CronJob", nothing, |key| queue.add(key))
    })?;
    factory.start(stop);
    if of_crons.synced().await && of_jobs.synced().await {
        work(reconcile, &queue, context, stop).await;
    }
    of_crons.remove();
    of_jobs.remove();
    Ok(())
}

impl Reconcile for CronJobs {
    const NAME: &'static str = "cronjob";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(cron) = self.crons.lister().namespace(key.namespace().clone()).get(key.name()) else {
            self.own_crons.forget(key);
            self.own_jobs.forget(key);
            return Ok(None);
        };
        let is_current =
            self.own_crons.are_seen(key, self.crons.store()) && self.own_jobs.are_seen(key, self.jobs.store());
        if !is_current {
            // The cache will show the last write soon, which queues the key again.
            return Ok(Some(CACHE_TIMEOUT));
        }
        let jobs = indices::controlled_by(&self.jobs.lister(), cron.uid());
        let mut changed = (*cron).clone();
        self.note(&mut changed, &jobs);
        let done = if cron.is_being_deleted() { Ok(None) } else { self.keep_to_schedule(&mut changed).await };
        let trimmed = if cron.is_being_deleted() { Ok(()) } else { self.trim(&mut changed, &jobs).await };
        if changed.status.clone().unwrap_or_default() != cron.status.clone().unwrap_or_default() {
            match Api::<CronJob>::namespaced(&self.client, cron.namespace()).update_status(&changed).await {
                Ok(written) => self.own_crons.written(key, &written),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        trimmed?;
        done
    }
}

impl CronJobs {
    /// Creates the due job, if there is one; returns the time until the next.
    #[doc(alias = "syncCronJob")]
    async fn keep_to_schedule(&self, cron: &mut CronJob) -> Synced {
        if cron.spec.suspend == Some(true) {
            return Ok(None);
        }
        let Some(schedule) = self.schedule_of(cron) else { return Ok(None) };
        let now = clock::now();
        let timing = timing(cron, &schedule, now);
        let Some(due) = timing.due else {
            // A date such as February 31 never comes. The words are those of
            // kube-controller-manager.
            if timing.wait.is_none() {
                let why = "time difference between two schedules is less than 1 second";
                let message = format!("invalid schedule: {} : {why}", cron.spec.schedule);
                self.events.warning(&*cron, "InvalidSchedule", message);
            }
            return Ok(timing.wait);
        };
        if timing.has_missed_many {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.events.warning(&*cron, "TooManyMissedTimes", message);
        }
        let active = cron.status.get_or_insert_default().active.clone();
        if !active.is_empty() && cron.spec.concurrency_policy.as_deref() == Some("Forbid") {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.events.normal(&*cron, "JobAlreadyActive", message);
            return Ok(timing.wait);
        }
        if cron.spec.concurrency_policy.as_deref() == Some("Replace") {
            for one in &active {
                let (name, uid) = (one.name.as_deref(), one.uid.as_deref());
                self.delete(cron, name.unwrap_or_default(), uid.unwrap_or_default()).await?;
            }
        }
        self.make(cron, due).await?;
        Ok(timing.wait)
    }

    /// The schedule in its time zone; records an event if it is invalid.
    fn schedule_of(&self, cron: &CronJob) -> Option<Schedule> {
        let zone = match cron.spec.time_zone.as_deref() {
            None | Some("UTC") => TimeZone::UTC,
            Some(name) => match TimeZone::get(name) {
                Ok(zone) => zone,
                Err(error) => {
                    let message = format!("invalid timeZone: {name:?}: {error}");
                    self.events.warning(cron, "UnknownTimeZone", message);
                    return None;
                }
            },
        };
        match Schedule::parse(&cron.spec.schedule, zone) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let message = format!("unparseable schedule: {:?} : {error}", cron.spec.schedule);
                self.events.warning(cron, "UnparseableSchedule", message);
                None
            }
        }
    }

    async fn make(&self, cron: &mut CronJob, due: Time) -> Result<(), Error> {
        let api = Api::<Job>::namespaced(&self.client, cron.namespace());
        let made = match api.create(&jobs::job(cron, due)).await {
            Ok(made) => {
                self.own_jobs.written(&cron.key(), &made);
                self.events.normal(&*cron, "SuccessfulCreate", format!("Created job {}", made.name()));
                made
            }
            // Either ours, not yet in the status, or a foreign job of the same name.
            Err(error) if error.is_already_exists() => {
                let found = api.get(&jobs::name(cron, due)).await?;
                if !owner::is_controlled_by(&found.metadata, &cron.metadata) {
                    return Err(Error::NotControlled {
                        object: format!("job {}", found.key()),
                        owner: format!("CronJob {}", cron.name()),
                    });
                }
                found
            }
            Err(error) if is_namespace_terminating(&error) => return Err(error.into()),
            Err(error) => {
                self.events.warning(&*cron, "FailedCreate", format!("Error creating job: {error}"));
                return Err(error.into());
            }
        };
        let status = cron.status.get_or_insert_default();
        let is_listed = status.active.iter().any(|one| one.uid.as_deref() == Some(made.uid()));
        if !is_listed && jobs::finished(&made).is_none() {
            status.active.push(jobs::reference(&made));
        }
        status.last_schedule_time = Some(due);
        Ok(())
    }
}
