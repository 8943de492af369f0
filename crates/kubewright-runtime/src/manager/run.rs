//! Start and shutdown order of a manager.
//!
//! Start: HTTP endpoints, webhooks, caches until they have synced, tasks and controllers that need
//! no leadership, controllers that warm up, and once this process leads the other controllers and
//! leader tasks. Webhooks precede caches because the server may need a conversion for a list.
//!
//! Stop: tasks and controllers that need no leadership, other controllers and leader tasks, caches,
//! webhooks, HTTP endpoints. Each group is awaited before the next is stopped, all within one grace
//! period. Leases are released last, when nothing can act any more. A failure stops the manager in
//! the same order.
//!
//! Leases are not released if work had to be dropped, or if the future of [`Manager::run`] is
//! dropped: that work may take a moment to end, so the leases must expire.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_core::Str;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::endpoints::ServedPages;
use super::group::TaskGroup;
use super::{Checks, Manager, ManagerError, endpoints};
use crate::controller::{BoxError, CacheSource, ControllerHandle, LeadershipNeed, RunnableController, unsynced};
use crate::election::Leadership;

/// How long queued events may take to be written at the end.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// Maximum number of logged unfinished keys per controller.
const MAX_LOGGED_KEYS: usize = 10;

/// Everything that acts on the cluster. Dropping it aborts the tasks and lets the leases expire.
#[derive(Default)]
struct ManagerTasks {
    others: TaskGroup,
    leading: TaskGroup,
    sharding: TaskGroup,
    leadership: Option<Leadership>,
}

impl Manager {
    /// Runs everything until `shutdown` is cancelled, something fails, or leadership is lost.
    ///
    /// Dropping the future aborts all tasks and lets leases expire.
    ///
    /// # Errors
    /// If something fails or panics, caches do not sync in time, leadership is lost, or work is not
    /// finished within the grace period.
    #[inline]
    pub async fn run(mut self, shutdown: &CancellationToken) -> Result<(), ManagerError> {
        for (name, make) in std::mem::take(&mut self.options.tasks) {
            let task = make(&self);
            self.claim(name.clone())?;
            self.tasks.push((name, task));
        }
        let checks = Arc::new(std::mem::take(&mut self.checks));
        let started = tokio::select! {
            biased;
            started = self.start_servers(&checks) => Some(started?),
            // A certificate may come from an API server that does not answer.
            () = shutdown.cancelled() => None,
        };
        let Some((mut http, mut webhooks)) = started else {
            if let Some(events) = self.events.take() {
                events.shutdown(LAST_EVENTS).await;
            }
            return Ok(());
        };
        let caches = CancellationToken::new();
        let own_caches = (!self.is_factory_shared).then(|| caches.clone().drop_guard());
        let other_caches = CancellationToken::new();
        let stop_other_caches = other_caches.clone().drop_guard();
        if let Some(sharding) = &self.sharding {
            self.controllers.iter().for_each(|controller| controller.share(sharding));
        }
        self.factory.start(&caches);
        self.clusters.iter().for_each(|cluster| cluster.start(&other_caches));
        let handles = self.handles();
        let mut work = ManagerTasks::default();
        let result = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            error = http.first_failure() => Err(error),
            error = webhooks.first_failure() => Err(error),
            error = self.start_work(&mut work, &caches, &checks, shutdown) => Err(error),
        };
        let grace = self.options.grace;
        let deadline = grace.and_then(|grace| Instant::now().checked_add(grace));
        let leadership = work.leadership.take();
        let ended = match &result {
            // Another process may lead already, so nothing is finished.
            Err(ManagerError::LeadershipLost) => Err(ManagerError::LeadershipLost),
            _ if grace == Some(Duration::ZERO) => Err(ManagerError::GracePeriodOver { grace: Duration::ZERO }),
            _ => tokio::select! {
                biased;
                () = lost(leadership.as_ref()) => Err(ManagerError::LeadershipLost),
                ended = work.end() => Ok(ended),
                () = until(deadline) => Err(ManagerError::GracePeriodOver { grace: grace.unwrap_or_default() }),
            },
        };
        let has_ended = ended.is_ok();
        let mut result = match ended {
            Ok(ended) => result.and(ended),
            // Requested by a grace period of zero.
            Err(ManagerError::GracePeriodOver { grace }) if grace.is_zero() => result,
            Err(error) => {
                tracing::error!(%error, dropped = unfinished(&handles), "dropping unfinished work");
                result.and(Err(error))
            }
        };
        if has_ended {
            let stopping = async {
                // A shared factory stops each informer when it is no longer in use.
                self.controllers.clear();
                self.indexed.clear();
                if own_caches.is_some() {
                    self.factory.shutdown().await;
                }
                for cluster in &self.clusters {
                    cluster.shutdown().await;
                }
                webhooks.end().await.and(http.end().await)
            };
            let stopped = tokio::select! {
                biased;
                stopped = stopping => stopped,
                () = until(deadline) => Err(ManagerError::GracePeriodOver { grace: grace.unwrap_or_default() }),
            };
            result = result.and(stopped);
        } else {
            work.leading = TaskGroup::default();
            work.others = TaskGroup::default();
        }
        drop((own_caches, stop_other_caches, webhooks, http));
        if let Some(events) = self.events.take() {
            events.shutdown(LAST_EVENTS).await;
        }
        if has_ended {
            result = result.and(work.sharding.end().await);
            if let Some(leadership) = leadership {
                leadership.release().await;
            }
        }
        result
    }

    /// Starts the HTTP endpoints, then the webhooks.
    #[inline]
    async fn start_servers(&mut self, checks: &Arc<Checks>) -> Result<(TaskGroup, TaskGroup), ManagerError> {
        Ok((self.start_http(checks).await?, self.start_webhooks().await?))
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` at the configured addresses.
    #[inline]
    async fn start_http(&mut self, checks: &Arc<Checks>) -> Result<TaskGroup, ManagerError> {
        let mut http = TaskGroup::default();
        let registry = Arc::new(std::mem::take(&mut self.registry));
        let handlers = std::mem::take(&mut self.options.handlers);
        let metrics = ServedPages { registry: Some(registry), checks: None, handlers };
        let metrics = self.start_secure_metrics(&mut http, metrics).await?;
        if let Some(address) = self.options.listen {
            let listener = endpoints::listen(address).await?;
            if let Some(tell) = self.options.bound.take() {
                let _ = tell.send(listener.local_addr().unwrap_or(address));
            }
            let endpoints = ServedPages { checks: Some(checks.clone()), ..metrics.unwrap_or_default() };
            http.spawn(Str::from_static("endpoints"), |stop| async move {
                endpoints::serve(listener, endpoints, stop).await;
                Ok(())
            });
        }
        Ok(http)
    }

    /// Serves the metrics over HTTPS, or returns them.
    #[cfg(feature = "secure-metrics")]
    #[inline]
    async fn start_secure_metrics(
        &mut self,
        http: &mut TaskGroup,
        metrics: ServedPages,
    ) -> Result<Option<ServedPages>, ManagerError> {
        let Some(secure) = self.options.secure_metrics.take() else { return Ok(Some(metrics)) };
        let bound = secure.bind().await?;
        let (filter, counters) = (crate::access::AccessFilter::new(self.client()), self.metrics.certificates.clone());
        http.spawn(Str::from_static("metrics"), |stop| async move {
            super::secure_metrics::serve(bound, metrics, filter, counters, stop).await;
            Ok(())
        });
        Ok(None)
    }

    #[cfg(not(feature = "secure-metrics"))]
    #[inline]
    async fn start_secure_metrics(
        &mut self,
        _: &mut TaskGroup,
        metrics: ServedPages,
    ) -> Result<Option<ServedPages>, ManagerError> {
        Ok(Some(metrics))
    }

    #[cfg(feature = "webhook")]
    #[inline]
    async fn start_webhooks(&mut self) -> Result<TaskGroup, ManagerError> {
        let mut webhooks = TaskGroup::default();
        for (name, server) in self.webhooks.drain(..) {
            let bound = server.bind().await?;
            webhooks.spawn(name, |stop| async move {
                bound.serve(&stop).await;
                Ok(())
            });
        }
        Ok(webhooks)
    }

    #[cfg(not(feature = "webhook"))]
    #[inline]
    async fn start_webhooks(&mut self) -> Result<TaskGroup, ManagerError> {
        Ok(TaskGroup::default())
    }

    /// Starts everything that acts, group by group. Resolves when something fails.
    #[inline]
    async fn start_work(
        &mut self,
        work: &mut ManagerTasks,
        caches: &CancellationToken,
        checks: &Checks,
        shutdown: &CancellationToken,
    ) -> ManagerError {
        if let Err(error) = self.caches_synced().await {
            return error;
        }
        for (name, task) in self.tasks.drain(..) {
            work.others.spawn(name, task);
        }
        // Cancelled when this process leads.
        let is_leading = CancellationToken::new();
        let (early, late): (Vec<_>, Vec<_>) =
            self.controllers.drain(..).partition(|controller| controller.leadership() != LeadershipNeed::Start);
        for controller in early {
            match controller.leadership() {
                LeadershipNeed::Nothing => work.others.spawn_controller(controller, caches, &led()),
                _ => work.leading.spawn_controller(controller, caches, &is_leading),
            }
        }
        if let Some(elector) = &mut self.elector {
            checks.is_standing_by.store(true, Ordering::Release);
            let acquired = tokio::select! {
                biased;
                acquired = elector.acquire(shutdown) => acquired,
                error = work.others.first_failure() => return error,
                error = work.leading.first_failure() => return error,
            };
            checks.is_standing_by.store(false, Ordering::Release);
            match acquired {
                Some(leadership) if leadership.is_leading() => work.leadership = Some(leadership),
                Some(_) => return ManagerError::LeadershipLost,
                // The caller stops because of the same token.
                None if shutdown.is_cancelled() => return std::future::pending().await,
                None => return ManagerError::NotElected,
            }
        }
        if let Some(sharding) = self.sharding.take() {
            work.sharding.spawn(Str::from_static("sharding"), |stop| async move { Ok(sharding.run(&stop).await?) });
        }
        for (name, task) in self.leading_tasks.drain(..) {
            work.leading.spawn(name, task);
        }
        is_leading.cancel();
        for controller in late {
            work.leading.spawn_controller(controller, caches, &is_leading);
        }
        tokio::select! {
            biased;
            () = lost(work.leadership.as_ref()) => ManagerError::LeadershipLost,
            error = work.others.first_failure() => error,
            error = work.leading.first_failure() => error,
            error = work.sharding.first_failure() => error,
        }
    }

    /// Waits for all caches that controllers and indices need.
    #[inline]
    async fn caches_synced(&mut self) -> Result<(), ManagerError> {
        let mut waiting = JoinSet::new();
        for controller in &self.controllers {
            let (name, synced) = (Str::from(controller.handle().name()), controller.caches_synced());
            waiting.spawn(
                async move { synced.await.map_err(|error| ManagerError::Failed { name, source: error.into() }) },
            );
        }
        let (indexed, time_limit) = (self.indexed.clone(), self.options.sync_timeout);
        waiting.spawn(async move { indices_synced(&indexed, time_limit).await });
        while let Some(ended) = waiting.join_next().await {
            ended
                .map_err(|error| ManagerError::Failed { name: Str::from_static("caches"), source: error.into() })??;
        }
        Ok(())
    }
}

async fn indices_synced(indexed: &[Arc<dyn CacheSource>], time_limit: Duration) -> Result<(), ManagerError> {
    let all = async {
        for source in indexed {
            source.synced().await;
        }
    };
    let _ = timeout(time_limit, all).await;
    match unsynced(indexed) {
        unsynced if unsynced.is_empty() => Ok(()),
        unsynced => Err(ManagerError::NotSynced { timeout: time_limit, unsynced }),
    }
}

impl ManagerTasks {
    /// Stops tasks that need no leadership, then the controllers and leader tasks.
    #[inline]
    async fn end(&mut self) -> Result<(), ManagerError> {
        let others = self.others.end().await;
        others.and(self.leading.end().await)
    }
}

impl TaskGroup {
    /// Runs a controller, whose workers start when `is_leading` is cancelled.
    #[inline]
    fn spawn_controller(
        &mut self,
        controller: RunnableController,
        caches: &CancellationToken,
        is_leading: &CancellationToken,
    ) {
        let (caches, is_leading) = (caches.clone(), is_leading.clone());
        self.spawn(controller.handle().name().into(), |stop| async move {
            controller.run_with_caches(&stop, &caches, &is_leading).await.map_err(BoxError::from)
        });
    }
}

/// The token for controllers that need no leadership.
#[inline]
fn led() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

/// The keys of unfinished reconciles, such as `maps default/a`.
fn unfinished(handles: &[ControllerHandle]) -> String {
    let of_one = |handle: &ControllerHandle| {
        let keys = handle.queue(MAX_LOGGED_KEYS).processing;
        keys.into_iter().map(|one| format!("{} {}", handle.name(), one.key)).collect::<Vec<_>>()
    };
    handles.iter().flat_map(of_one).collect::<Vec<_>>().join(", ")
}

/// Resolves when leadership is lost; never without an election.
#[inline]
async fn lost(leadership: Option<&Leadership>) {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

#[inline]
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
