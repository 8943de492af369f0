//! Runs a reconciler in reused memory, and catches its panics.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use kubewright_net::observation::{self, Entered, ObservedWork};
use tracing::Span;

use super::context::Context;
use super::outcome::Outcome;
use crate::error::BoxError;
use crate::unwind::caught;

/// The result of a reconciler.
pub(super) type ReconcileResult = Result<Outcome, BoxError>;

/// Creates the slot of each worker.
pub(super) type RunSlots = Box<dyn Fn() -> Box<dyn RunSlot> + Send + Sync>;

/// The slot in which a worker runs reconciles, one at a time. Reconciles are many and often short:
/// the reused slot saves an allocation for each.
pub(super) trait RunSlot: Send {
    /// Calls the reconciler.
    fn begin(&mut self, context: Context);
    /// Polls its future.
    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<ReconcileResult>;
    /// Drops the future, finished or not.
    fn clear(&mut self);
}

struct PlaceOf<F, R> {
    reconcile: Arc<F>,
    run: Pin<Box<Option<R>>>,
}

/// Slots for runs of `reconcile`.
pub(super) fn places<F, R>(reconcile: F) -> RunSlots
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = ReconcileResult> + Send + 'static,
{
    let reconcile = Arc::new(reconcile);
    Box::new(move || Box::new(PlaceOf { reconcile: reconcile.clone(), run: Box::pin(None) }))
}

impl<F, R> RunSlot for PlaceOf<F, R>
where
    F: Fn(Context) -> R + Send + Sync,
    R: Future<Output = ReconcileResult> + Send,
{
    fn begin(&mut self, context: Context) {
        self.run.set(Some((self.reconcile)(context)));
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<ReconcileResult> {
        self.run.as_mut().as_pin_mut().expect("polled only between begin and clear").poll(context)
    }

    fn clear(&mut self) {
        self.run.set(None);
    }
}

/// One reconcile. Its slot is cleared when it ends or is dropped.
pub(super) struct Run<'a> {
    place: &'a mut dyn RunSlot,
    /// The argument, until the reconcile has started.
    context: Option<Context>,
    /// The span of its events, if tracing is enabled.
    span: Option<&'a Span>,
    /// The reconcile for its observer, if there is one.
    observed: Option<Arc<dyn ObservedWork>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        place: &'a mut dyn RunSlot,
        context: Context,
        span: Option<&'a Span>,
        observed: Option<Arc<dyn ObservedWork>>,
    ) -> Self {
        Run { place, context: Some(context), span, observed }
    }

    /// Enters the observed reconcile.
    fn enter(&self) -> Option<Entered> {
        self.observed.clone().map(|work| observation::enter(Some(work)))
    }

    fn step(&mut self, context: &mut std::task::Context<'_>) -> Poll<ReconcileResult> {
        if let Some(context) = self.context.take() {
            self.place.begin(context);
        }
        let step = self.place.poll(context);
        if step.is_ready() {
            self.place.clear();
        }
        step
    }
}

impl Future for Run<'_> {
    /// The result, or the message of its panic.
    type Output = Result<ReconcileResult, String>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let _entered = this.span.map(Span::enter);
        let _observed = this.enter();
        // State that a panic left inconsistent is dropped with the run. The panic may come from the
        // reconciler, from its future, or from the drop of that.
        match caught(|| this.step(context)) {
            Ok(step) => step.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _entered = self.span.map(Span::enter);
        let _observed = self.enter();
        // The worker continues with other keys.
        if let Err(panic) = caught(|| self.place.clear()) {
            tracing::error!(panic, "a reconcile panicked as it was dropped");
        }
    }
}
