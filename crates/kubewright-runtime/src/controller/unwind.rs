//! Catches the panics of a future where it is polled.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future whose panics are values. It must not be polled again after one, as any future that is ready.
pub(crate) struct CatchUnwind<F> {
    work: Pin<Box<F>>,
}

impl<F: Future> CatchUnwind<F> {
    /// Catches the panics of `work`.
    pub(crate) fn new(work: F) -> Self {
        CatchUnwind { work: Box::pin(work) }
    }
}

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Whatever the future has left in disorder is dropped with it.
        match catch_unwind(AssertUnwindSafe(|| self.work.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(text_of(&*panic))),
        }
    }
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}
