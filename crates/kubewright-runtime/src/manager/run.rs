//! How a manager runs.
//!
//! Order of the start: the HTTP endpoints, webhooks, caches, tasks that need not lead, and once this process leads the controllers. The
//! end goes the other way round: controllers and tasks finish what they have in hand, then the caches stop, then the
//! endpoints, and the lease is freed last, when nothing can act any more. So it goes as well when something fails. Where work had to be
//! dropped, the lease is left to run out: what was dropped may take a moment to be gone.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_core::Str;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Checks, Manager, ManagerError, endpoints};
use crate::controller::{BoxError, ControllerHandle};
use crate::election::Leadership;

/// How long events that still wait may take to be written at the end.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// So many keys of a controller are named that were not finished in time.
const SHOWN: usize = 10;

impl Manager {
    /// Runs everything until `shutdown` is cancelled, something fails, or leadership is lost.
    ///
    /// # Errors
    /// If something fails, leadership is lost, or what was in hand is not finished in time.
    #[inline]
    pub async fn run(mut self, shutdown: &CancellationToken) -> Result<(), ManagerError> {
        let (caches, serving) = (CancellationToken::new(), CancellationToken::new());
        let _serving = serving.clone().drop_guard();
        let own_caches = (!self.is_factory_shared).then(|| caches.clone().drop_guard());
        let checks = Arc::new(std::mem::take(&mut self.checks));
        let registry = Arc::new(std::mem::take(&mut self.registry));
        let mut endpoints = JoinSet::new();
        if let Some(address) = self.options.listen {
            let listener = endpoints::listen(address).await?;
            if let Some(tell) = self.options.bound.take() {
                let _ = tell.send(listener.local_addr().unwrap_or(address));
            }
            endpoints.spawn(endpoints::serve(listener, registry, checks.clone(), serving.clone()));
        }
        #[cfg(feature = "webhook")]
        for server in self.webhooks.drain(..) {
            let (bound, stop) = (server.bind().await?, serving.clone());
            endpoints.spawn(async move { bound.serve(&stop).await });
        }
        // Caches are warm when this process comes to lead, and watches that nobody waits for can fail by themselves.
        self.factory.start(&caches);
        let shared_out = self.sharding.take().map(|sharding| {
            self.controllers.iter().for_each(|controller| controller.share(&sharding));
            let stop = CancellationToken::new();
            let stopped = stop.clone();
            // A task in a set ends with it.
            let mut task = JoinSet::new();
            task.spawn(async move { sharding.run(&stopped).await });
            (task, stop)
        });
        let (result, leadership) = self.run_work(shutdown, &caches, &checks).await;
        // Controllers have ended, so that shards have nothing in hand and can be given to others at once. If they could not
        // be ended they are dropped by now, too.
        if let Some((mut sharding, stop)) = shared_out {
            stop.cancel();
            let _ = sharding.join_next().await;
        }
        drop(own_caches);
        serving.cancel();
        while endpoints.join_next().await.is_some() {}
        if let Some(leadership) = leadership {
            leadership.release().await;
        }
        // Nobody else waits for these.
        if let Some(events) = self.events.take() {
            events.shutdown(LAST_EVENTS).await;
        }
        result
    }

    /// Runs controllers and tasks, and gives back the leadership that they had if none of them can act any more.
    #[inline]
    async fn run_work(
        &mut self,
        shutdown: &CancellationToken,
        caches: &CancellationToken,
        checks: &Checks,
    ) -> (Result<(), ManagerError>, Option<Leadership>) {
        let stop = shutdown.child_token();
        let mut work = Work { running: JoinSet::new(), stop: stop.clone() };
        let mut handles = Vec::new();
        for (name, task) in self.tasks.drain(..) {
            work.spawn(name, task(stop.clone()));
        }
        let (leadership, mut failure) = match &mut self.elector {
            None => (None, None),
            Some(elector) => {
                checks.is_standing_by.store(true, Ordering::Release);
                tokio::select! {
                    biased;
                    leadership = elector.acquire(&stop) => (leadership, None),
                    error = work.first_failure() => (None, Some(error)),
                }
            }
        };
        checks.is_standing_by.store(false, Ordering::Release);
        if failure.is_none() && !stop.is_cancelled() {
            for (name, task) in self.leading_tasks.drain(..) {
                work.spawn(name, task(stop.clone()));
            }
            handles = self.handles();
            for controller in self.controllers.drain(..) {
                let (stop, caches) = (stop.clone(), caches.clone());
                let name = Str::from(controller.handle().name());
                let run = async move { controller.run_with_caches(&stop, &caches).await.map_err(BoxError::from) };
                work.spawn(name, run);
            }
        }
        let mut is_lost = false;
        if failure.is_none() {
            failure = tokio::select! {
                biased;
                () = lost(leadership.as_ref()) => {
                    is_lost = true;
                    None
                }
                error = work.first_failure() => Some(error),
                () = stop.cancelled() => None,
            };
        }
        stop.cancel();
        let grace = self.options.grace;
        // Somebody else may lead as soon as leadership is lost, so that nothing is finished then.
        let ended = if is_lost {
            Err(ManagerError::LeadershipLost)
        } else {
            let over = async {
                match grace {
                    Some(grace) => sleep(grace).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = lost(leadership.as_ref()) => Err(ManagerError::LeadershipLost),
                result = work.end() => Ok(result),
                () = over => Err(ManagerError::GracePeriodOver { grace: grace.unwrap_or_default() }),
            }
        };
        match ended {
            Ok(result) => (failure.map_or(result, Err), leadership),
            Err(error) => {
                tracing::error!(%error, dropped = in_hand(&handles), "what was in hand is dropped");
                drop(work);
                if let Some(leadership) = leadership {
                    leadership.abandon();
                }
                (Err(failure.unwrap_or(error)), None)
            }
        }
    }
}

/// The keys whose reconciles have not ended, as `maps default/a`.
fn in_hand(handles: &[ControllerHandle]) -> String {
    let of_one = |handle: &ControllerHandle| {
        let keys = handle.queue(SHOWN).processing;
        keys.into_iter().map(|one| format!("{} {}", handle.name(), one.key)).collect::<Vec<_>>()
    };
    handles.iter().flat_map(of_one).collect::<Vec<_>>().join(", ")
}

/// Resolves when leadership is lost; never where nobody has to lead.
#[inline]
async fn lost(leadership: Option<&Leadership>) {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// What runs, each with its name.
struct Work {
    running: JoinSet<(Str, Result<(), BoxError>)>,
    stop: CancellationToken,
}

impl Work {
    #[inline]
    fn spawn(&mut self, name: Str, work: impl Future<Output = Result<(), BoxError>> + Send + 'static) {
        self.running.spawn(async move { (name, work.await) });
    }

    /// Resolves when something fails; never if nothing does.
    #[inline]
    async fn first_failure(&mut self) -> ManagerError {
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = self.judge(ended) {
                return error;
            }
        }
        std::future::pending().await
    }

    #[inline]
    async fn end(&mut self) -> Result<(), ManagerError> {
        let mut result = Ok(());
        while let Some(ended) = self.running.join_next().await {
            result = result.and(self.judge(ended));
        }
        result
    }

    #[inline]
    fn judge(&self, ended: Result<(Str, Result<(), BoxError>), tokio::task::JoinError>) -> Result<(), ManagerError> {
        match ended {
            Ok((name, Ok(()))) => {
                if !self.stop.is_cancelled() {
                    tracing::debug!(%name, "has ended by itself");
                }
                Ok(())
            }
            Ok((name, Err(source))) => Err(ManagerError::Failed { name, source }),
            Err(error) => Err(ManagerError::Failed { name: Str::from_static("a task"), source: error.into() }),
        }
    }
}
