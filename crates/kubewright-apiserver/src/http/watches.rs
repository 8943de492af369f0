//! The watches of a connection of HTTP/2: one look finds all that have something to say.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::body::Body as _;
use kubewright_http2::Doorbell;

use super::Body;

/// So much is given to a stream before it is asked whether its client takes any. Bounds what is kept for one that does not.
const UNASKED: usize = 64 << 10;

/// Watches that one task polls, all with one waker: they are looked at when it was used, and not otherwise.
///
/// Each looks at a number or two when there is nothing for it. A future for each, with a waker of its own, would be woken and found again
/// for each event, and would ask its stream three times and more.
pub(super) struct Watches {
    open: Vec<Watch>,
    /// Rung for anything that concerns a watch.
    bell: Doorbell,
    signal: Signal,
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
    bell: Waker,
}

impl Default for Watches {
    fn default() -> Self {
        let bell = Doorbell::default();
        Watches { open: Vec::new(), signal: Signal::new(bell.waker()), bell }
    }
}

impl Watches {
    pub(super) fn add(&mut self, watch: Watch) {
        self.open.push(watch);
        // It has to be asked for the first time, and its stream as well.
        self.signal.waker.wake_by_ref();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether there is something to look for.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.is_rung()
    }

    /// Gives all streams what their watches have to say.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        self.bell.wake_later(context.waker());
        if !self.bell.is_rung() {
            return;
        }
        self.bell.begin();
        let is_raised = self.signal.raised.is_raised.swap(false, Ordering::AcqRel);
        let waker = self.bell.waker();
        let (mut events, mut streams) = (Context::from_waker(&waker), Context::from_waker(&self.signal.waker));
        self.open.retain_mut(|watch| {
            let has_left = is_raised && watch.stream.poll_reset(&mut streams).is_ready();
            !has_left && watch.poll(&mut events, &mut streams).is_pending()
        });
        if !self.bell.rest() {
            context.waker().wake_by_ref();
        }
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
    fn new(bell: Waker) -> Self {
        let raised = Arc::new(Raised { is_raised: AtomicBool::new(false), bell });
        Signal { waker: Arc::clone(&raised).into(), raised }
    }
}

impl Wake for Raised {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_raised.store(true, Ordering::Release);
        self.bell.wake_by_ref();
    }
}
