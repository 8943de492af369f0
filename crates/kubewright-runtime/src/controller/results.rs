//! A stream of finished reconciles, for tests and metrics.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_core::Stream;
use kubewright_core::ObjectKey;
use tokio::sync::mpsc;

use super::context::Context;
use super::outcome::{Outcome, ReconcileFailure};
use super::reason::Reasons;
use super::reconcile_error::ErrorAction;
use crate::error::chain;

/// Maximum number of results that a subscriber has not read yet.
const BUFFER: usize = 1024;

/// A finished reconcile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reconciled {
    /// The key.
    pub key: ObjectKey,
    /// The reasons of the reconcile.
    pub reasons: Reasons,
    /// The attempt: 1, plus one for each preceding retry with back-off.
    pub attempt: u32,
    /// The id of the reconcile in logs.
    pub reconcile_id: String,
    /// The duration.
    pub elapsed: Duration,
    /// The outcome, or the failure.
    pub result: Result<Outcome, Failed>,
}

/// The failure of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// The error with its causes.
    pub error: String,
    /// The treatment of the key.
    pub action: ErrorAction,
}

impl Reconciled {
    pub(super) fn new(
        context: &Context,
        elapsed: Duration,
        ended: &Result<Outcome, (ReconcileFailure, ErrorAction)>,
    ) -> Self {
        Reconciled {
            key: context.key().clone(),
            reasons: context.reasons().clone(),
            attempt: context.attempt(),
            reconcile_id: context.reconcile_id(),
            elapsed,
            result: match ended {
                Ok(outcome) => Ok(*outcome),
                Err((failure, action)) => Err(Failed { error: chain(failure), action: *action }),
            },
        }
    }
}

/// The results of a controller since the subscription, in the order in which reconciles end. Ends
/// when the controller stops.
///
/// A reader that is more than 1024 results behind [misses](Self::missed) results. The controller
/// never waits for it.
pub struct ReconcileResults {
    receiver: mpsc::Receiver<Reconciled>,
    missed: Arc<AtomicU64>,
}

impl ReconcileResults {
    /// The next result; `None` after the controller has stopped. Cancel safe.
    pub async fn next(&mut self) -> Option<Reconciled> {
        self.receiver.recv().await
    }

    /// Number of results that were not delivered, because the reader was too far behind.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

impl Stream for ReconcileResults {
    type Item = Reconciled;

    fn poll_next(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<Reconciled>> {
        self.get_mut().receiver.poll_recv(context)
    }
}

impl fmt::Debug for ReconcileResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileResults").field("missed", &self.missed()).finish_non_exhaustive()
    }
}

/// The subscribers of a controller.
#[derive(Default)]
pub(super) struct Subscribers {
    /// Whether there are any, readable without the lock.
    is_observed: AtomicBool,
    state: Mutex<SubscriberState>,
}

#[derive(Default)]
struct SubscriberState {
    subscribers: Vec<(mpsc::Sender<Reconciled>, Arc<AtomicU64>)>,
    is_closed: bool,
}

impl Subscribers {
    pub(super) fn subscribe(&self) -> ReconcileResults {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let missed = Arc::new(AtomicU64::new(0));
        self.change(|state| {
            if !state.is_closed {
                state.subscribers.push((sender, missed.clone()));
            }
        });
        ReconcileResults { receiver, missed }
    }

    pub(super) fn is_observed(&self) -> bool {
        self.is_observed.load(Ordering::Acquire)
    }

    /// Sends a result to all subscribers that still listen.
    pub(super) fn publish(&self, result: &Reconciled) {
        self.change(|state| {
            state.subscribers.retain(|(sender, missed)| match sender.try_send(result.clone()) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    missed.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(mpsc::error::TrySendError::Closed(_)) => false,
            });
        });
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        self.change(|state| {
            state.subscribers.clear();
            state.is_closed = true;
        });
    }

    fn change(&self, change: impl FnOnce(&mut SubscriberState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        self.is_observed.store(!state.subscribers.is_empty(), Ordering::Release);
    }
}
