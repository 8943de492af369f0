//! A controller whose reconciles are started by a replay, and not by its queue.

use std::sync::Arc;

use kubewright_core::{ObjectKey, Str};
use kubewright_net::observation::ObservedWork;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::context::{Context, ContextInner, SharedContext};
use super::reason::{Reason, ReasonKind, Reasons};
use super::run::Run;
use super::running::Detach;
use super::work::WorkerPlan;
use super::{ControllerError, RunnableController};
use crate::error::chain;

/// A controller over synced caches, without workers.
pub(crate) struct ReplayedController {
    name: Str,
    plan: Arc<WorkerPlan>,
    shared_context: Arc<SharedContext>,
    _attached: Detach,
}

/// The arguments of a recorded reconcile.
pub(crate) struct ReplayedStart {
    pub(crate) key: ObjectKey,
    /// Source, object and kind of each reason.
    pub(crate) reasons: Vec<(String, Option<ObjectKey>, String)>,
    pub(crate) attempt: u32,
    pub(crate) id: u64,
}

impl RunnableController {
    /// Attaches the controller to its caches, and waits until they have synced.
    pub(crate) async fn replayed(
        self,
        client: kubewright_client::Client,
        stop: &CancellationToken,
    ) -> Result<ReplayedController, ControllerError> {
        let (shared, plan) = (self.shared.clone(), self.plan.clone());
        let attached = self.attach(stop).await?;
        let shared_context = Arc::new(SharedContext { client, shared: shared.clone(), stop: stop.clone() });
        Ok(ReplayedController { name: shared.name.clone(), plan, shared_context, _attached: attached })
    }
}

impl ReplayedController {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Starts a reconcile. It runs until its first wait before this function's caller waits again.
    pub(crate) fn start(&self, start: ReplayedStart, work: Arc<dyn ObservedWork>) -> JoinHandle<Result<(), String>> {
        let reasons = start.reasons.into_iter().filter_map(|(source, object, kind)| {
            Some(Reason { source: source.into(), object, kind: ReasonKind::of_text(&kind)? })
        });
        let context = Context::new(ContextInner {
            key: start.key,
            reasons: Reasons::recorded(reasons),
            attempt: start.attempt,
            reconcile_id: start.id,
            shared_context: self.shared_context.clone(),
        });
        let plan = self.plan.clone();
        tokio::spawn(async move {
            let mut place = (plan.places)();
            match Run::new(&mut *place, context, None, Some(work)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(chain(&*error)),
                Err(panic) => Err(panic),
            }
        })
    }
}
