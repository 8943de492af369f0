//! A run of a reconciler, in memory that the next run uses again, with its panics caught.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tracing::Span;

use super::context::Context;
use super::outcome::{BoxError, Outcome};
use crate::unwind::caught;

/// What a reconciler returns.
pub(super) type Ended = Result<Outcome, BoxError>;

/// Makes for each worker the place in which it runs the reconciler.
pub(super) type Places = Box<dyn Fn() -> Box<dyn Place> + Send + Sync>;

/// Where one worker runs a reconciler, one run at a time. Reconciles are many and often short: a place that is made once
/// spares an allocation for each.
pub(super) trait Place: Send {
    /// Calls the reconciler.
    fn begin(&mut self, context: Context);
    /// Goes on with what it returned.
    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<Ended>;
    /// Drops what is there, finished or not.
    fn clear(&mut self);
}

struct PlaceOf<F, R> {
    reconcile: Arc<F>,
    run: Pin<Box<Option<R>>>,
}

/// Places for runs of `reconcile`.
pub(super) fn places<F, R>(reconcile: F) -> Places
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Ended> + Send + 'static,
{
    let reconcile = Arc::new(reconcile);
    Box::new(move || Box::new(PlaceOf { reconcile: reconcile.clone(), run: Box::pin(None) }))
}

impl<F, R> Place for PlaceOf<F, R>
where
    F: Fn(Context) -> R + Send + Sync,
    R: Future<Output = Ended> + Send,
{
    fn begin(&mut self, context: Context) {
        self.run.set(Some((self.reconcile)(context)));
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<Ended> {
        self.run.as_mut().as_pin_mut().expect("polled only between begin and clear").poll(context)
    }

    fn clear(&mut self) {
        self.run.set(None);
    }
}

/// One run. Its place is empty again when it has ended or is dropped.
pub(super) struct Run<'a> {
    place: &'a mut dyn Place,
    /// What to begin with, until it has begun.
    context: Option<Context>,
    /// In which its events are, where anybody listens.
    span: Option<&'a Span>,
}

impl<'a> Run<'a> {
    pub(super) fn new(place: &'a mut dyn Place, context: Context, span: Option<&'a Span>) -> Self {
        Run { place, context: Some(context), span }
    }

    fn step(&mut self, context: &mut std::task::Context<'_>) -> Poll<Ended> {
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
    /// What it came to, or the text of its panic.
    type Output = Result<Ended, String>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let _entered = this.span.map(Span::enter);
        // Whatever a panic has left in disorder is dropped with the run. It may come from the reconciler itself as well as from
        // the future that it returns, or from the end of that.
        match caught(|| this.step(context)) {
            Ok(step) => step.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _entered = self.span.map(Span::enter);
        // The worker has other keys to go on with.
        if let Err(panic) = caught(|| self.place.clear()) {
            tracing::error!(panic, "a reconcile panicked as it was dropped");
        }
    }
}
