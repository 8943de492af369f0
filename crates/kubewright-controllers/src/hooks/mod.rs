//! Declared controllers: objects with a webhook for their logic.
//!
//! A [`CompositeController`] names a parent resource, child resources and a hook. For each parent
//! the hook returns the desired children; these are applied server-side, owned by the parent, and
//! deleted when they are no longer desired. The protocol is that of Metacontroller. It is not run
//! by default.

mod children;
mod composite;
mod resource;
mod webhook;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use crate::hook_error::HookError;
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{DynamicObject, Object, ObjectKey};
use kubewright_runtime::ControllerHandle;
use kubewright_runtime::controller::ControllerError;
use kubewright_runtime::custom::CustomResource;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use resource::{
    CompositeController, CompositeControllerSpec, CompositeControllerStatus, Hook, Hooks, ResourceRule, Webhook,
};

use crate::context::ControllerContext;
use crate::error::{Error, chain};
use crate::worker::{self, Reconcile, Synced, work};

/// Check interval of a starting controller.
const START_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Check interval of a running controller.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The definition of [`CompositeController`].
pub fn definition() -> DynamicObject {
    let definition = CompositeController::definition();
    DynamicObject::from_typed(&definition).expect("a definition is an object")
}

/// A started controller.
struct RunningController {
    declared: CompositeController,
    handle: ControllerHandle,
    stop: DropGuard,
    task: JoinHandle<Result<(), ControllerError>>,
}

struct Controllers {
    client: Client,
    workers: usize,
    declared: Lister<CompositeController>,
    running: Mutex<HashMap<ObjectKey, RunningController>>,
}

/// Runs the declared controllers until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "CompositeController")]
#[doc(alias = "metacontroller")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let queue = worker::queue(context, Controllers::NAME);
    let informer = context.factory().informer::<CompositeController>();
    let registration = informer.add_handler({
        let queue = queue.clone();
        move |event: &Event<CompositeController>| queue.add(event.key())
    })?;
    context.factory().start(stop);
    if registration.synced().await {
        let controllers = Arc::new(Controllers {
            client: context.client().clone(),
            workers: context.workers,
            declared: informer.lister(),
            running: Mutex::default(),
        });
        work(controllers.clone(), &queue, context, stop).await;
        let running: Vec<_> = controllers.running().drain().collect();
        for (_, one) in running {
            one.end().await;
        }
    }
    registration.remove();
    Ok(())
}

impl Reconcile for Controllers {
    const NAME: &'static str = "hooks";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let declared = self.declared.get(key.name()).filter(|declared| !declared.is_being_deleted());
        let running = self.running().remove(key);
        let Some(declared) = declared else {
            if let Some(running) = running {
                running.end().await;
                tracing::info!(controller = %key, "a declared controller has ended");
            }
            return Ok(None);
        };
        let running = match running {
            Some(running) if running.is_of(&declared) && !running.task.is_finished() => running,
            before => {
                let failed = match before {
                    Some(before) => before.end().await,
                    None => None,
                };
                if let Some(failed) = failed {
                    tracing::warn!(controller = %key, failed, "a declared controller is started again");
                }
                match self.start(&declared).await {
                    Ok(running) => running,
                    Err(error) => {
                        self.tell(&declared, false, Some(chain(&error))).await?;
                        return Err(error.into());
                    }
                }
            }
        };
        let health = running.handle.health();
        self.running().insert(key.clone(), running);
        let message = health.failing.first().map(|failing| format!("{}: {}", failing.key, failing.error));
        self.tell(&declared, health.is_working, message).await?;
        Ok(Some(if health.is_working { CHECK_INTERVAL } else { START_CHECK_INTERVAL }))
    }
}

impl Controllers {
    fn running(&self) -> MutexGuard<'_, HashMap<ObjectKey, RunningController>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, declared: &CompositeController) -> Result<RunningController, HookError> {
        let controller = composite::prepare(declared, &self.client, self.workers).await?;
        let (handle, stop) = (controller.handle(), CancellationToken::new());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(&stop).await }
        });
        tracing::info!(controller = declared.name(), "a declared controller is started");
        Ok(RunningController { declared: declared.clone(), handle, stop: stop.drop_guard(), task })
    }

    /// Writes the status if it changed.
    async fn tell(
        &self,
        declared: &CompositeController,
        is_working: bool,
        message: Option<String>,
    ) -> Result<(), Error> {
        let observed_generation = declared.generation().unwrap_or_default();
        let status = CompositeControllerStatus { observed_generation, is_working, message };
        if declared.status.as_ref() != Some(&status) {
            let mut changed = declared.clone();
            changed.status = Some(status);
            match Api::<CompositeController>::all(&self.client).update_status(&changed).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

impl RunningController {
    fn is_of(&self, declared: &CompositeController) -> bool {
        self.declared.uid() == declared.uid() && self.declared.spec == declared.spec
    }

    /// Stops it, waits for running reconciles, and returns why it had failed, if so.
    async fn end(self) -> Option<String> {
        drop(self.stop);
        match self.task.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(error) => Some(error.to_string()),
        }
    }
}
