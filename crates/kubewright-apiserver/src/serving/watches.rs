//! Polls all watches of an HTTP/2 connection together.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::body::Body as _;
use kubewright_net::http2::Doorbell;

use crate::http::ResponseBody;

/// Data given to a stream before its flow control is checked. Bounds the buffer of a client that
/// does not read.
const UNCHECKED_BYTES: usize = 64 << 10;

/// Watches that one task polls with a single waker. They are polled only after a wake-up.
///
/// A watch without events only compares a few numbers. Separate futures with separate wakers would
/// cost more per event: a wake-up and a queue operation for each, and several checks of its stream.
pub(super) struct WatchPoller {
    open: Vec<WatchResponse>,
    /// Rung by events and by streams.
    bell: Doorbell,
    signal: Signal,
}

/// A watch response.
pub(super) struct WatchResponse {
    stream: SendStream<Bytes>,
    body: ResponseBody,
    /// Bytes given to the stream since the last flow control check.
    given: usize,
}

/// Set when a stream changes: the client has closed it, or has opened its window.
struct Signal {
    raised: Arc<Raised>,
    waker: Waker,
}

struct Raised {
    is_raised: AtomicBool,
    bell: Waker,
}

impl Default for WatchPoller {
    fn default() -> Self {
        let bell = Doorbell::default();
        WatchPoller { open: Vec::new(), signal: Signal::new(bell.waker()), bell }
    }
}

impl WatchPoller {
    pub(super) fn add(&mut self, watch: WatchResponse) {
        self.open.push(watch);
        // Poll the watch and its stream for the first time.
        self.signal.waker.wake_by_ref();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether there was a wake-up.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.is_rung()
    }

    /// Sends the available frames of all watches.
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

impl WatchResponse {
    pub(super) fn new(stream: SendStream<Bytes>, body: ResponseBody) -> Self {
        WatchResponse { stream, body, given: 0 }
    }

    /// Ready when the watch or the stream has ended.
    fn poll(&mut self, context: &mut Context<'_>, streams: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.given >= UNCHECKED_BYTES {
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

    /// Waits until the stream has capacity. Returns false if it is closed.
    fn poll_moves(&mut self, streams: &mut Context<'_>) -> Poll<bool> {
        // This capacity becomes available after all data that are already buffered.
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
