//! The lifecycle of a controller.
//!
//! No key is reconciled before all required relations have synced.

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_cache::{BoxFuture, InformerStopped, SharedInformerFactory, Unsynced};
use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::AddOptions;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::reason::{Reason, ReasonKind};
use super::relation::{AllKeys, CacheSource, Relation, WatchSpec, unsynced};
use super::settings::LeadershipNeed;
use super::shared::{ControllerHandle, SharedController};
use super::sources::SourceTask;
use super::work::WorkerPlan;
use crate::error::chain;
use crate::own_writes::OwnWrite;
use crate::permissions::Permissions;
use crate::sharding::Sharding;

/// Poll interval for failures of an optional relation that has not synced.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Interval of the search for written objects that were deleted without an event.
const LOST_WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// A controller with its reconciler, ready to be run.
pub struct RunnableController {
    pub(super) shared: Arc<SharedController>,
    pub(super) factory: SharedInformerFactory,
    /// The main kind first, if there is one.
    pub(super) watches: Vec<WatchSpec>,
    /// The keys that a starting controller would reconcile; used where all objects are meant.
    pub(super) listed_keys: AllKeys,
    pub(super) feeds: Vec<(Str, SourceTask)>,
    pub(super) workers: usize,
    pub(super) leadership: LeadershipNeed,
    pub(super) permissions: Permissions,
    pub(super) sync_timeout: Duration,
    pub(super) has_zero_period: bool,
    pub(super) plan: Arc<WorkerPlan>,
}

/// Why a controller could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// An informer that it watches was stopped.
    #[error("controller {controller}: an informer has been stopped")]
    Stopped {
        /// The controller.
        controller: Str,
        /// The informer's error.
        #[source]
        source: InformerStopped,
    },
    /// A period of [`every`](crate::Controller::every) is zero.
    #[error("controller {controller}: the period of a periodic reconcile is zero")]
    ZeroPeriod {
        /// The controller.
        controller: Str,
    },
    /// Some caches did not sync in time.
    #[error("controller {controller}: not synced within {timeout:?}: {}", text_of(.unsynced))]
    NotSynced {
        /// The controller.
        controller: Str,
        /// The time limit.
        timeout: Duration,
        /// The kinds that have not synced, each with its last failure.
        unsynced: Vec<Unsynced>,
    },
}

/// Kinds that have not synced with their last failures, such as `secrets (403, cannot list: secrets
/// is forbidden)`.
pub(crate) fn text_of(unsynced: &[Unsynced]) -> String {
    let of_one = |unsynced: &Unsynced| {
        let Some(health) = &unsynced.health else { return format!("{} (not started)", unsynced.name) };
        let Some((error, _)) = &health.last_error else { return format!("{} ({:?})", unsynced.name, health.state) };
        let status = error.source().and_then(|source| source.downcast_ref::<kubewright_client::Error>()?.status());
        let code = status.and_then(|status| status.code).map(|code| format!("{code}, ")).unwrap_or_default();
        format!("{} ({code}{})", unsynced.name, chain(&**error))
    };
    unsynced.iter().map(of_one).collect::<Vec<_>>().join("; ")
}

impl RunnableController {
    /// A handle to request reconciles and to read its health.
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle { shared: self.shared.clone() }
    }

    /// Runs until `shutdown` is cancelled and running reconciles have ended. Starts all informers
    /// of the factory that are not running; each stops when it is no longer in use.
    ///
    /// # Errors
    /// If a required kind does not sync in time, an informer has been stopped, or a period is zero.
    pub async fn run(self, shutdown: &CancellationToken) -> Result<(), ControllerError> {
        let is_leading = CancellationToken::new();
        is_leading.cancel();
        // Never cancelled: other controllers may use informers that were started here.
        self.run_with_caches(shutdown, &CancellationToken::new(), &is_leading).await
    }

    /// The permissions that it needs: `get`, `list` and `watch` on what it watches, and the
    /// [declared](crate::Controller::permissions) ones.
    pub fn permissions(&self) -> Permissions {
        let mut permissions = self.permissions.clone();
        self.watches.iter().for_each(|watch| permissions.insert_watch(watch.source.name()));
        permissions
    }

    /// Its behaviour before this process leads.
    pub(crate) fn leadership(&self) -> LeadershipNeed {
        self.leadership
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// If a period is zero.
    pub(crate) fn validate(&self) -> Result<(), ControllerError> {
        if self.has_zero_period {
            return Err(ControllerError::ZeroPeriod { controller: self.shared.name.clone() });
        }
        Ok(())
    }

    /// Reconciles only keys of this replica's shards.
    pub(crate) fn share(&self, sharding: &Sharding) {
        // A sharding configured on the controller itself takes precedence.
        let _ = self.shared.sharding.set(sharding.clone());
    }

    /// Waits until the caches of all required relations have synced, without attaching to them.
    pub(crate) fn caches_synced(&self) -> BoxFuture<'static, Result<(), ControllerError>> {
        let required = self.watches.iter().filter(|watch| !watch.is_optional);
        let sources: Vec<Arc<dyn CacheSource>> = required.map(|watch| watch.source.clone()).collect();
        let (controller, time_limit) = (self.shared.name.clone(), self.sync_timeout);
        Box::pin(async move {
            let all = async {
                for source in &sources {
                    if !source.synced().await {
                        return false;
                    }
                }
                true
            };
            match timeout(time_limit, all).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(ControllerError::Stopped { controller, source: InformerStopped }),
                Err(_) => {
                    Err(ControllerError::NotSynced { controller, timeout: time_limit, unsynced: unsynced(&sources) })
                }
            }
        })
    }

    /// Like [`run`](Self::run), with caches that stop when `caches` is cancelled, after the
    /// controllers, and with workers that start when `is_leading` is cancelled. Boxed, so that it
    /// is compiled in this crate.
    pub(crate) fn run_with_caches<'a>(
        self,
        shutdown: &'a CancellationToken,
        caches: &'a CancellationToken,
        is_leading: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ControllerError>> {
        Box::pin(self.run_to_its_end(shutdown, caches, is_leading))
    }

    /// Attaches the watches, starts the caches and waits until they have synced. The controller is
    /// detached when the result is dropped.
    #[cfg(feature = "replay")]
    pub(super) async fn attach(self, caches: &CancellationToken) -> Result<Detach, ControllerError> {
        let RunnableController { shared, factory, watches, listed_keys, sync_timeout, .. } = self;
        let stopped = |source| ControllerError::Stopped { controller: shared.name.clone(), source };
        let mut attached = Detach { shared: shared.clone(), relations: Vec::new() };
        for watch in watches {
            attached.relations.push(watch.attach(&shared, listed_keys.clone()).map_err(stopped)?);
        }
        shared.set_relations(attached.relations.clone());
        factory.start(caches);
        sync(&shared, &attached.relations, sync_timeout).await?;
        shared.is_working.store(true, Ordering::Release);
        Ok(attached)
    }

    async fn run_to_its_end(
        self,
        shutdown: &CancellationToken,
        caches: &CancellationToken,
        is_leading: &CancellationToken,
    ) -> Result<(), ControllerError> {
        self.validate()?;
        let RunnableController { shared, factory, watches, listed_keys, feeds, workers, sync_timeout, plan, .. } = self;
        let stopped = |source| ControllerError::Stopped { controller: shared.name.clone(), source };
        // Created before the first watch is attached, so that none stays attached if a later one
        // fails.
        let mut attached = Detach { shared: shared.clone(), relations: Vec::new() };
        for watch in watches {
            attached.relations.push(watch.attach(&shared, listed_keys.clone()).map_err(stopped)?);
        }
        let relations = &attached.relations;
        shared.set_relations(relations.clone());
        factory.start(caches);
        let syncing: BoxFuture<'_, _> = Box::pin(sync(&shared, relations, sync_timeout));
        let Some(synced) = shutdown.run_until_cancelled(syncing).await else { return Ok(()) };
        synced?;
        // Until then the watches fill the queue.
        if shutdown.run_until_cancelled(is_leading.cancelled()).await.is_none() {
            return Ok(());
        }
        shared.is_working.store(true, Ordering::Release);
        tracing::info!(controller = %shared.name, workers, "controller works");
        let (mut beside, mut name_of) = (JoinSet::new(), HashMap::new());
        for (name, feed) in feeds {
            let handle = ControllerHandle { shared: shared.clone() };
            // Called within the task, so that a panic of the function is one of the task.
            let all_keys = listed_keys.clone();
            let feeding: BoxFuture<'static, ()> = Box::pin(async move { feed(handle, all_keys).await });
            name_of.insert(beside.spawn(feeding).id(), name);
        }
        let finding: BoxFuture<'static, ()> = Box::pin(find_lost_writes(shared.clone()));
        name_of.insert(beside.spawn(finding).id(), Str::from_static("lost writes"));
        if let Some(sharding) = shared.sharding.get().cloned() {
            let shared = shared.clone();
            let is_cut = shared.main().is_some_and(|main| main.is_share(&sharding));
            let telling: BoxFuture<'static, ()> = Box::pin(async move {
                // Keys of a relisted share do not tell their shard.
                let take_over = |is_gained: &dyn Fn(&ObjectKey) -> bool| {
                    shared.take_over(&listed_keys, &|key| is_cut || is_gained(key));
                };
                sharding.tell(take_over).await;
            });
            name_of.insert(beside.spawn(telling).id(), Str::from_static("sharding"));
        }
        let worker = || -> BoxFuture<'static, ()> { Box::pin(plan.clone().work(shared.clone(), shutdown.clone())) };
        let mut working = JoinSet::new();
        for _ in 0..workers {
            working.spawn(worker());
        }
        loop {
            tokio::select! {
                ended = working.join_next() => match ended {
                    None => break,
                    // Panics of reconcilers and limiters are caught; after any other panic the
                    // worker is replaced.
                    Some(Err(error)) if error.is_panic() => {
                        tracing::error!(controller = %shared.name, %error, "a worker panicked");
                        working.spawn(worker());
                    }
                    Some(_) => {}
                },
                Some(ended) = beside.join_next(), if !beside.is_empty() => {
                    if let Err(error) = ended {
                        let feed = name_of.remove(&error.id()).unwrap_or_default();
                        tracing::error!(controller = %shared.name, %feed, %error, "feed panicked");
                        shared.feed_broke(feed);
                    }
                }
            }
        }
        shared.is_working.store(false, Ordering::Release);
        beside.shutdown().await;
        shared.queue.shut_down();
        tracing::info!(controller = %shared.name, "controller has stopped");
        Ok(())
    }
}

impl SharedController {
    /// Reconciles all objects of newly acquired shards.
    fn take_over(&self, listed_keys: &AllKeys, is_gained: &dyn Fn(&ObjectKey) -> bool) {
        for key in listed_keys().into_iter().filter(|key| is_gained(key)) {
            let reason = Reason { source: Str::from_static("sharding"), object: None, kind: ReasonKind::TakenOver };
            self.enqueue(key, reason, self.urgency(ReasonKind::TakenOver, None));
        }
    }
}

/// Detaches the controller on drop.
pub(super) struct Detach {
    shared: Arc<SharedController>,
    relations: Vec<Arc<dyn Relation>>,
}

impl Drop for Detach {
    fn drop(&mut self) {
        self.shared.is_working.store(false, Ordering::Release);
        self.relations.iter().for_each(|relation| relation.detach());
        self.shared.results.close();
        // Handles may live on, but must not keep informers alive.
        self.shared.set_relations(Vec::new());
    }
}

/// Waits until each relation has synced. An optional one is not waited for once it fails: it
/// catches up later.
async fn sync(
    shared: &SharedController,
    relations: &[Arc<dyn Relation>],
    time_limit: Duration,
) -> Result<(), ControllerError> {
    let began = Instant::now();
    let (optional, required): (Vec<_>, Vec<_>) = relations.iter().partition(|relation| relation.is_optional());
    for relation in required {
        match timeout(time_limit.saturating_sub(began.elapsed()), relation.synced()).await {
            Ok(true) => {}
            Ok(false) => {
                return Err(ControllerError::Stopped { controller: shared.name.clone(), source: InformerStopped });
            }
            Err(_) => {
                return Err(ControllerError::NotSynced {
                    controller: shared.name.clone(),
                    timeout: time_limit,
                    unsynced: unsynced_relations(relations),
                });
            }
        }
    }
    for relation in optional {
        let failing = async {
            while !relation.is_failing() {
                sleep(POLL_INTERVAL).await;
            }
        };
        let waiting: BoxFuture<'_, bool> = Box::pin(async {
            tokio::select! {
                biased;
                is_synced = relation.synced() => is_synced,
                () = failing => false,
            }
        });
        if !timeout(time_limit.saturating_sub(began.elapsed()), waiting).await.unwrap_or(false) {
            let relation = relation.health(false).name;
            tracing::warn!(controller = %shared.name, %relation, "starting before an optional relation has synced");
        }
    }
    Ok(())
}

fn unsynced_relations(relations: &[Arc<dyn Relation>]) -> Vec<Unsynced> {
    let required = relations.iter().filter(|relation| !relation.is_optional() && !relation.has_synced());
    let health = required.map(|relation| relation.health(false));
    health.map(|health| Unsynced { name: health.name.to_string(), health: health.watch }).collect()
}

impl fmt::Debug for RunnableController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnableController").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// Reconciles keys whose written objects were deleted without an event.
///
/// An object that was created and deleted while the watch was down is in no list. Only the recorded
/// write shows that it existed.
async fn find_lost_writes(shared: Arc<SharedController>) {
    loop {
        sleep(LOST_WRITE_INTERVAL).await;
        if shared.writes.is_empty() {
            continue;
        }
        let relations = shared.relations();
        let is_lost = |write: &OwnWrite| relations.get(write.relation).is_some_and(|relation| relation.has_lost(write));
        for key in shared.writes.keys_that_lost(is_lost) {
            let reason = Reason { source: Str::from_static("lost write"), object: None, kind: ReasonKind::Deleted };
            shared.enqueue(key, reason, AddOptions::new());
        }
    }
}
