//! The controller of hooks: controllers that are declared as objects, and whose logic is a webhook.
//!
//! A [`CompositeController`] names a parent resource, child resources and a hook. For each parent the hook is asked what should be
//! there; children are applied server-side, owned by the parent, and deleted when they are no longer wanted. What is asked and
//! answered is what Metacontroller has, whose hooks work here. It is not run by default.

mod children;
mod composite;
mod resource;
mod webhook;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_cache::{Event, Lister};
use kubewright_client::config::ConfigError;
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

/// How soon it is looked at a controller that starts.
const STARTING: Duration = Duration::from_millis(200);

/// How often it is looked at one that works.
const LOOK: Duration = Duration::from_secs(10);

/// Why a declared controller cannot do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// A hook has no usable address.
    #[error("{0:?} is no URL of a hook")]
    Url(String),
    /// The authorities of a hook are none.
    #[error("caBundle is not PEM in base64")]
    Bundle,
    /// A hook cannot be connected to as it says.
    #[error("the hook cannot be used")]
    Config(#[source] ConfigError),
    /// A resource is not served.
    #[error("the server has no resource {0}")]
    UnknownResource(String),
    /// The server does not tell what it has.
    #[error("the server does not say which resources it has")]
    Discovery(#[source] kubewright_client::Error),
    /// A hook did not answer, or with an error.
    #[error("the hook failed")]
    Call(#[source] kubewright_client::Error),
    /// A hook answered something else than was asked.
    #[error("the answer of the hook makes no sense: {0}")]
    Answer(String),
    /// A hook wants a child of a kind that was not declared.
    #[error("the hook wants a child of {0}, which is not among childResources")]
    UnknownChild(String),
    /// A hook wants a child where its parent cannot own it.
    #[error("the hook wants {0} outside the namespace of its parent")]
    Place(String),
    /// A child that is wanted exists and belongs to somebody else.
    #[error("{0} exists and belongs to somebody else")]
    Taken(String),
}

/// The definition of [`CompositeController`].
pub fn definition() -> DynamicObject {
    let definition = CompositeController::definition();
    DynamicObject::from_typed(&definition).expect("a definition is an object")
}

/// One that was started.
struct Running {
    declared: CompositeController,
    handle: ControllerHandle,
    stop: DropGuard,
    task: JoinHandle<Result<(), ControllerError>>,
}

struct Controllers {
    client: Client,
    workers: usize,
    declared: Lister<CompositeController>,
    running: Mutex<HashMap<ObjectKey, Running>>,
}

/// Runs the declared controllers until `stop` is cancelled, each with so many workers.
///
/// # Errors
/// If the caches stop before they were complete.
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
        Ok(Some(if health.is_working { LOOK } else { STARTING }))
    }
}

impl Controllers {
    fn running(&self) -> MutexGuard<'_, HashMap<ObjectKey, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, declared: &CompositeController) -> Result<Running, HookError> {
        let controller = composite::prepare(declared, &self.client, self.workers).await?;
        let (handle, stop) = (controller.handle(), CancellationToken::new());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(&stop).await }
        });
        tracing::info!(controller = declared.name(), "a declared controller is started");
        Ok(Running { declared: declared.clone(), handle, stop: stop.drop_guard(), task })
    }

    /// Writes how it is doing, if that is news.
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

impl Running {
    fn is_of(&self, declared: &CompositeController) -> bool {
        self.declared.uid() == declared.uid() && self.declared.spec == declared.spec
    }

    /// Stops it, waits for the runs in hand, and tells why it had failed, if so.
    async fn end(self) -> Option<String> {
        drop(self.stop);
        match self.task.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(error) => Some(error.to_string()),
        }
    }
}
