//! A controller from its start to its end.
//!
//! It starts closed: no key is reconciled before each relation that is not optional has synced.

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

use super::reason::{Change, Reason};
use super::relation::{AllKeys, Relation, Source, Watch, unsynced};
use super::shared::{ControllerHandle, Shared};
use super::work::{Feed, Plan};
use crate::consistency::Write;
use crate::sharding::Sharding;

/// How often an optional relation that has not synced is checked for failures.
const LOOK: Duration = Duration::from_millis(50);

/// How often the controller looks for written objects that are gone without an event.
const LOST_WRITES: Duration = Duration::from_secs(5);

/// A controller with its reconciler, ready to be run.
pub struct RunnableController {
    pub(super) shared: Arc<Shared>,
    pub(super) factory: SharedInformerFactory,
    /// The main kind first.
    pub(super) watches: Vec<Watch>,
    /// Those that would be reconciled if the controller started now: what is meant where all objects are.
    pub(super) listed_keys: AllKeys,
    pub(super) feeds: Vec<(Str, Feed)>,
    pub(super) workers: usize,
    pub(super) sync_timeout: Duration,
    pub(super) has_zero_period: bool,
    pub(super) plan: Arc<Plan>,
}

/// Why a controller could not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// What it watches has been stopped by somebody else.
    #[error("controller {controller}: an informer has been stopped")]
    Stopped {
        /// The controller.
        controller: Str,
        /// What the informer says.
        #[source]
        source: InformerStopped,
    },
    /// A period of [`every`](crate::Controller::every) is zero.
    #[error("controller {controller}: the period of a periodic reconcile is zero")]
    ZeroPeriod {
        /// The controller.
        controller: Str,
    },
    /// Some caches were not complete in time.
    #[error("controller {controller}: not synced within {timeout:?}: {}", text_of(.unsynced))]
    NotSynced {
        /// The controller.
        controller: Str,
        /// How long was waited.
        timeout: Duration,
        /// The kinds that have not synced, each with its last failure.
        unsynced: Vec<Unsynced>,
    },
}

/// Kinds that have not synced with their last failures, as `secrets (403, cannot list: secrets is
/// forbidden)`.
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
    /// What asks for reconciles, and tells how it is doing.
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle { shared: self.shared.clone() }
    }

    /// Runs until `shutdown` is cancelled and the runs in hand have ended. Informers that nobody has started are started, those of
    /// others in the same factory included; each stops when nobody uses it any more.
    ///
    /// # Errors
    /// If a kind that is not optional does not sync in time, an informer has been stopped, or a
    /// period is zero.
    pub async fn run(self, shutdown: &CancellationToken) -> Result<(), ControllerError> {
        // Never cancelled: other controllers may use the same informers, or find theirs started here.
        self.run_with_caches(shutdown, &CancellationToken::new()).await
    }

    /// Whether it can run as it was configured.
    ///
    /// # Errors
    /// If a period is zero.
    pub(crate) fn validate(&self) -> Result<(), ControllerError> {
        if self.has_zero_period {
            return Err(ControllerError::ZeroPeriod { controller: self.shared.name.clone() });
        }
        Ok(())
    }

    /// Reconciles only keys that are this replica's.
    pub(crate) fn share(&self, sharding: &Sharding) {
        // Whoever configured the controller itself comes first.
        let _ = self.shared.sharding.set(sharding.clone());
    }

    /// Waits until the caches of all relations that are not optional are complete, without
    /// attaching to them.
    pub(crate) fn caches_synced(&self) -> BoxFuture<'static, Result<(), ControllerError>> {
        let required = self.watches.iter().filter(|watch| !watch.is_optional);
        let sources: Vec<Arc<dyn Source>> = required.map(|watch| watch.source.clone()).collect();
        let (controller, patience) = (self.shared.name.clone(), self.sync_timeout);
        Box::pin(async move {
            let all = async {
                for source in &sources {
                    if !source.synced().await {
                        return false;
                    }
                }
                true
            };
            match timeout(patience, all).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(ControllerError::Stopped { controller, source: InformerStopped }),
                Err(_) => {
                    Err(ControllerError::NotSynced { controller, timeout: patience, unsynced: unsynced(&sources) })
                }
            }
        })
    }

    /// The same with caches that stop when `caches` says so, after the controllers.
    /// Boxed, so that it is compiled here and not in each program.
    pub(crate) fn run_with_caches<'a>(
        self,
        shutdown: &'a CancellationToken,
        caches: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ControllerError>> {
        Box::pin(self.run_to_its_end(shutdown, caches))
    }

    async fn run_to_its_end(
        self,
        shutdown: &CancellationToken,
        caches: &CancellationToken,
    ) -> Result<(), ControllerError> {
        self.validate()?;
        let RunnableController { shared, factory, watches, listed_keys, feeds, workers, sync_timeout, plan, .. } = self;
        let stopped = |source| ControllerError::Stopped { controller: shared.name.clone(), source };
        // There before the first is attached, so that none stays if one of the next cannot be.
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
        shared.is_working.store(true, Ordering::Release);
        tracing::info!(controller = %shared.name, workers, "controller works");
        let (mut beside, mut name_of) = (JoinSet::new(), HashMap::new());
        for (name, feed) in feeds {
            let handle = ControllerHandle { shared: shared.clone() };
            // Made within the task: what makes it is as much its user's as the rest.
            let feeding: BoxFuture<'static, ()> = Box::pin(async move { feed(handle).await });
            name_of.insert(beside.spawn(feeding).id(), name);
        }
        let finding: BoxFuture<'static, ()> = Box::pin(find_lost_writes(shared.clone()));
        name_of.insert(beside.spawn(finding).id(), Str::from_static("lost writes"));
        if let Some(sharding) = shared.sharding.get().cloned() {
            let shared = shared.clone();
            let is_cut = relations.first().is_some_and(|main| main.is_share(&sharding));
            let telling: BoxFuture<'static, ()> = Box::pin(async move {
                // Of a share that is listed anew, keys do not tell in which shard they are.
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
                    // Reconcilers and limiters that panic are caught, but should anything else, another worker takes the place.
                    Some(Err(error)) if error.is_panic() => {
                        tracing::error!(controller = %shared.name, %error, "a worker panicked");
                        working.spawn(worker());
                    }
                    Some(_) => {}
                },
                Some(ended) = beside.join_next(), if !beside.is_empty() => {
                    if let Err(error) = ended {
                        let feed = name_of.remove(&error.id()).unwrap_or_default();
                        tracing::error!(controller = %shared.name, %feed, %error, "a feed panicked, and asks no more");
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

impl Shared {
    /// Reconciles all objects of shards that this replica has got.
    fn take_over(&self, listed_keys: &AllKeys, is_gained: &dyn Fn(&ObjectKey) -> bool) {
        for key in listed_keys().into_iter().filter(|key| is_gained(key)) {
            let reason = Reason { source: Str::from_static("sharding"), object: None, change: Change::TakenOver };
            self.enqueue(key, reason, Shared::urgency(Change::TakenOver));
        }
    }
}

/// Ends what a controller is told, however it ends.
struct Detach {
    shared: Arc<Shared>,
    relations: Vec<Arc<dyn Relation>>,
}

impl Drop for Detach {
    fn drop(&mut self) {
        self.shared.is_working.store(false, Ordering::Release);
        self.relations.iter().for_each(|relation| relation.detach());
        // Handles may live on; informers should not, for them alone.
        self.shared.set_relations(Vec::new());
    }
}

/// Waits until each relation has synced. An optional one is not waited for once it fails: it
/// catches up on its own.
async fn sync(shared: &Shared, relations: &[Arc<dyn Relation>], patience: Duration) -> Result<(), ControllerError> {
    let began = Instant::now();
    let (optional, required): (Vec<_>, Vec<_>) = relations.iter().partition(|relation| relation.is_optional());
    for relation in required {
        match timeout(patience.saturating_sub(began.elapsed()), relation.synced()).await {
            Ok(true) => {}
            Ok(false) => {
                return Err(ControllerError::Stopped { controller: shared.name.clone(), source: InformerStopped });
            }
            Err(_) => {
                return Err(ControllerError::NotSynced {
                    controller: shared.name.clone(),
                    timeout: patience,
                    unsynced: unsynced_relations(relations),
                });
            }
        }
    }
    for relation in optional {
        let failing = async {
            while !relation.is_failing() {
                sleep(LOOK).await;
            }
        };
        let waiting: BoxFuture<'_, bool> = Box::pin(async {
            tokio::select! {
                biased;
                is_synced = relation.synced() => is_synced,
                () = failing => false,
            }
        });
        if !timeout(patience.saturating_sub(began.elapsed()), waiting).await.unwrap_or(false) {
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

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl fmt::Debug for RunnableController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnableController").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// Reconciles keys again whose written objects are gone without an event.
///
/// An object that was created and deleted while its watch was down is in no list. Only the record of
/// the write tells that it was there.
async fn find_lost_writes(shared: Arc<Shared>) {
    loop {
        sleep(LOST_WRITES).await;
        if shared.writes.is_empty() {
            continue;
        }
        let relations = shared.relations();
        let is_lost = |write: &Write| relations.get(write.relation).is_some_and(|relation| relation.has_lost(write));
        for key in shared.writes.keys_that_lost(is_lost) {
            let reason = Reason { source: Str::from_static("lost write"), object: None, change: Change::Deleted };
            shared.enqueue(key, reason, AddOptions::new());
        }
    }
}
