//! The watches of a connection of HTTP/2: one look finds all that have something to say.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::body::Body as _;

use super::Body;

/// So much is given to a stream before it is asked whether its client takes any. Bounds what is kept for one that does not.
const UNASKED: usize = 64 << 10;

/// Watches that one task polls, all with its own waker.
///
/// Each looks at a number or two when there is nothing for it. A future for each, with a waker of its own, would be woken and found again
/// for each event, and would ask its stream three times and more.
#[derive(Default)]
pub(super) struct Watches {
    open: Vec<Watch>,
    signal: Option<Signal>,
}

/// An answer that goes on.
pub(super) struct Watch {
    stream: SendStream<Bytes>,
    body: Body,
    /// What the stream was given since it was last known to move.
    given: usize,
}

/// Raised when something has happened to a stream: its client has left, or takes more.
struct Signal {
    raised: Arc<Raised>,
    waker: Waker,
}

struct Raised {
    is_raised: AtomicBool,
    task: Waker,
}

impl Watches {
    pub(super) fn add(&mut self, watch: Watch) {
        self.open.push(watch);
        // Its stream has to be asked for the first time.
        if let Some(signal) = &self.signal {
            signal.raised.is_raised.store(true, Ordering::Release);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Gives all streams what their watches have to say.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        if self.open.is_empty() {
            return;
        }
        let signal = match &mut self.signal {
            Some(signal) if signal.raised.task.will_wake(context.waker()) => signal,
            signal => signal.insert(Signal::new(context.waker())),
        };
        let is_raised = signal.raised.is_raised.swap(false, Ordering::AcqRel);
        let mut streams = Context::from_waker(&signal.waker);
        self.open.retain_mut(|watch| {
            let has_left = is_raised && watch.stream.poll_reset(&mut streams).is_ready();
            !has_left && watch.poll(context, &mut streams).is_pending()
        });
    }
}

impl Watch {
    pub(super) fn new(stream: SendStream<Bytes>, body: Body) -> Self {
        Watch { stream, body, given: 0 }
    }

    /// Ready when there is nothing more to come, or nobody who wants it.
    fn poll(&mut self, context: &mut Context<'_>, streams: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.given >= UNASKED {
                if !std::task::ready!(self.poll_moves(streams)) {
                    return Poll::Ready(());
                }
                self.given = 0;
            }
            let (bytes, is_last) = match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), self.body.is_end_stream()),
                Some(Err(_)) => {
                    self.stream.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(());
                }
                None => (Bytes::new(), true),
            };
            self.given += bytes.len();
            if self.stream.send_data(bytes, is_last).is_err() || is_last {
                return Poll::Ready(());
            }
        }
    }

    /// Waits until the client takes more; false if there is none.
    fn poll_moves(&mut self, streams: &mut Context<'_>) -> Poll<bool> {
        // Behind all that is there already.
        self.stream.reserve_capacity(1);
        while self.stream.capacity() == 0 {
            match std::task::ready!(self.stream.poll_capacity(streams)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(false),
            }
        }
        Poll::Ready(true)
    }
}

impl Signal {
    /// Raised at first, so that all streams are asked.
    fn new(task: &Waker) -> Self {
        let raised = Arc::new(Raised { is_raised: AtomicBool::new(true), task: task.clone() });
        Signal { waker: Arc::clone(&raised).into(), raised }
    }
}

impl Wake for Raised {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_raised.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}
