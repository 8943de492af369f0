//! Response bodies: whole, encoded while they are sent, or a watch. Faults can break them.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_core::Stream;
use hyper::body::{Frame, SizeHint};
use kubewright_audit::AuditTrail;
use kubewright_net::transport::Body;
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::connection_limit::ActiveRequest;
use super::in_flight::InFlightPermit;
use super::memory::MemoryReservation;
use crate::backup::Backup;
use crate::channel_condition::ChannelCondition;
use crate::faults::ActiveFaults;
use crate::registry::{FrameSlot, RegistryWatch};
use kubewright_objects::encoding::ListEncoder;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Maximum size of a data frame on a connection, which buffers a few frames.
const FRAME_MAX: usize = 32 << 10;

/// A body that is encoded in chunks while it is sent.
pub(crate) trait ChunkSource: Iterator<Item = Bytes> + Send {
    /// The approximate length of the body, if it is known.
    fn length(&self) -> Option<usize>;

    fn is_end(&self) -> bool;
}

impl ChunkSource for Backup {
    fn length(&self) -> Option<usize> {
        None
    }

    fn is_end(&self) -> bool {
        Backup::is_end(self)
    }
}

impl ChunkSource for ListEncoder {
    fn length(&self) -> Option<usize> {
        Some(ListEncoder::length(self))
    }

    fn is_end(&self) -> bool {
        ListEncoder::is_end(self)
    }
}

/// The body of a response.
///
/// It fails if a fault is injected, or if it is not read before the deadline of its request.
pub struct ResponseBody {
    inner: Inner,
    /// Maximum size of a data frame.
    frame_max: usize,
    /// Whether to yield before the next frame is encoded.
    yields: bool,
    deadline: Option<Instant>,
    /// Number of bytes left before an injected fault cuts the body.
    rest: Option<usize>,
    // Held until the response is sent.
    _place: InFlightPermit,
    _memory: MemoryReservation,
    _request: Option<ActiveRequest>,
    _audit: Option<AuditTrail>,
}

enum Inner {
    Whole {
        bytes: Bytes,
        /// Whether a newline follows. It is not part of `bytes`, which share the text of a stored
        /// object.
        ends_line: bool,
    },
    List {
        list: Box<dyn ChunkSource>,
        /// Encoded bytes that are not sent yet.
        encoded: Bytes,
    },
    /// The body of a response that another server sends.
    Forwarded {
        body: Body,
        /// Bytes that are not sent yet.
        rest: Bytes,
        is_end: bool,
    },
    Gzip {
        source: Box<Inner>,
        /// `None` after the last frame.
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    Watch {
        /// The task that puts frames into the slot. `None` after the last one.
        running: Option<Running>,
        slot: FrameSlot,
        active_faults: Option<WatchFaults>,
    },
}

/// The faults that affect a watch.
struct WatchFaults {
    active_faults: watch::Receiver<ActiveFaults>,
    /// Ready when the watch is cut.
    cut: ChannelCondition<ActiveFaults>,
    /// Ready when the server thaws. Set while it is frozen.
    thaw: Option<ChannelCondition<ActiveFaults>>,
}

impl ResponseBody {
    /// A body of one line of JSON: a newline follows the bytes.
    pub(crate) fn line(bytes: Bytes) -> Self {
        ResponseBody::new(Inner::Whole { bytes, ends_line: true })
    }

    /// A body that is encoded while it is sent.
    pub(crate) fn chunked(source: impl ChunkSource + 'static) -> Self {
        ResponseBody::new(Inner::List { list: Box::new(source), encoded: Bytes::new() })
    }

    /// The body of a response that another server sends.
    pub(crate) fn forwarded(body: Body) -> Self {
        ResponseBody::new(Inner::Forwarded { body, rest: Bytes::new(), is_end: false })
    }

    fn new(inner: Inner) -> Self {
        ResponseBody {
            inner,
            frame_max: usize::MAX,
            yields: false,
            deadline: None,
            rest: None,
            _place: InFlightPermit::default(),
            _memory: MemoryReservation::default(),
            _request: None,
            _audit: None,
        }
    }

    /// The length before compression, if it is known. That of a list is an estimate.
    pub(crate) fn length(&self) -> Option<usize> {
        match &self.inner {
            Inner::Whole { bytes, ends_line } => Some(bytes.len() + usize::from(*ends_line)),
            Inner::List { list, .. } => list.length(),
            Inner::Forwarded { .. } | Inner::Gzip { .. } | Inner::Watch { .. } => None,
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.inner, Inner::Watch { .. })
    }

    /// The same, compressed while it is sent.
    pub(crate) fn compressed(mut self) -> Self {
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        let source = Box::new(std::mem::replace(&mut self.inner, Inner::whole(Bytes::new())));
        self.inner = Inner::Gzip { source, encoder };
        self
    }

    /// Sets a deadline, after which the body fails. Watches ignore it.
    pub(crate) fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Holds a memory reservation until the body is dropped.
    pub(crate) fn holding(mut self, memory: MemoryReservation) -> Self {
        self._memory = memory;
        self
    }

    /// Applies faults to a watch: it breaks when watches are cut, and pauses while the server is
    /// frozen.
    pub(crate) fn with_faults(mut self, active_faults: watch::Receiver<ActiveFaults>) -> Self {
        if let Inner::Watch { active_faults: faults, .. } = &mut self.inner {
            *faults = Some(WatchFaults::new(active_faults));
        }
        self
    }

    /// Ends the audit of the request when the body is dropped.
    pub(crate) fn audited(mut self, trail: Option<AuditTrail>) -> Self {
        self._audit = trail;
        self
    }

    /// The bytes, if all of them exist and are not compressed.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.inner {
            Inner::Whole { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Counts the request as in flight until the body is dropped.
    pub(crate) fn in_place(mut self, place: InFlightPermit) -> Self {
        self._place = place;
        self
    }

    /// The same in frames for a connection, which is not idle until the body is dropped.
    pub(crate) fn of_request(mut self, request: ActiveRequest) -> Self {
        self.frame_max = FRAME_MAX;
        self._request = Some(request);
        self
    }

    /// Fails after this many bytes.
    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        self.rest = Some(bytes);
        self
    }
}

impl WatchFaults {
    fn new(active_faults: watch::Receiver<ActiveFaults>) -> Self {
        let cuts = active_faults.borrow().cuts;
        // Also ready when the server is dropped, which ends all watches.
        let cut = ChannelCondition::new(&active_faults, move |active_faults| active_faults.cuts != cuts);
        let mut faults = WatchFaults { active_faults, cut, thaw: None };
        faults.check_frozen();
        faults
    }

    /// Fails when the watch is cut, and is pending while the server is frozen.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.cut.poll(context).is_ready() {
            return Poll::Ready(Err(broken()));
        }
        if self.thaw.is_none() && self.active_faults.has_changed().unwrap_or(true) {
            self.check_frozen();
        }
        if let Some(thaw) = &mut self.thaw {
            std::task::ready!(thaw.poll(context));
            self.thaw = None;
        }
        Poll::Ready(Ok(()))
    }

    fn check_frozen(&mut self) {
        if self.active_faults.borrow_and_update().is_frozen {
            self.thaw = Some(ChannelCondition::new(&self.active_faults, |active_faults| !active_faults.is_frozen));
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "a fault was injected: the stream was cut")
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        ResponseBody::new(Inner::whole(bytes))
    }
}

impl From<ListEncoder> for ResponseBody {
    fn from(list: ListEncoder) -> Self {
        ResponseBody::chunked(list)
    }
}

impl From<RegistryWatch> for ResponseBody {
    fn from(stream: RegistryWatch) -> Self {
        let slot = FrameSlot::default();
        // The watches of a connection share its task, and one event for each would exceed the
        // task's coop budget. The work per poll is bounded anyway: at most one frame.
        let running = Some(Box::pin(unconstrained(stream.run(slot.clone()))) as Running);
        ResponseBody::new(Inner::Watch { running, slot, active_faults: None })
    }
}

impl Inner {
    fn whole(bytes: Bytes) -> Self {
        Inner::Whole { bytes, ends_line: false }
    }

    /// The next bytes: at most `max`, except for watches.
    fn poll_bytes(&mut self, max: usize, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Inner::Whole { bytes, ends_line: false } if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole { bytes, ends_line } => {
                // The newline needs room in the last frame.
                let is_last = bytes.len() < max;
                let next = bytes.split_to(bytes.len().min(max - 1));
                if is_last && std::mem::take(ends_line) {
                    return Poll::Ready(Some(Ok([&next[..], b"\n"].concat().into())));
                }
                Poll::Ready(Some(Ok(next)))
            }
            Inner::List { list, encoded } => {
                if encoded.is_empty() {
                    let Some(next) = list.next() else { return Poll::Ready(None) };
                    *encoded = next;
                }
                Poll::Ready(Some(Ok(encoded.split_to(encoded.len().min(max)))))
            }
            Inner::Forwarded { body, rest, is_end } => {
                while rest.is_empty() && !*is_end {
                    match std::task::ready!(Pin::new(&mut *body).poll_next(context)) {
                        Some(Ok(chunk)) => *rest = chunk,
                        Some(Err(error)) => {
                            *is_end = true;
                            return Poll::Ready(Some(Err(io::Error::other(error))));
                        }
                        None => *is_end = true,
                    }
                }
                let next = rest.split_to(rest.len().min(max));
                Poll::Ready((!next.is_empty()).then_some(Ok(next)))
            }
            Inner::Gzip { source, encoder } => {
                let Some(gzip) = encoder else { return Poll::Ready(None) };
                let written = match std::task::ready!(source.poll_bytes(FRAME_MAX, context)) {
                    Some(Ok(bytes)) => gzip.write_all(&bytes),
                    Some(Err(error)) => Err(error),
                    None => gzip.try_finish(),
                };
                let compressed = Bytes::from(std::mem::take(gzip.get_mut()));
                if source.is_end() {
                    // This frame includes the rest of the compressed data.
                    let rest = encoder.take().map_or(Ok(Vec::new()), GzEncoder::finish);
                    let all = written.and(rest).map(|rest| [compressed, rest.into()].concat().into());
                    return Poll::Ready(Some(all));
                }
                Poll::Ready(Some(written.map(|()| compressed)))
            }
            Inner::Watch { running, slot, active_faults } => {
                let Some(future) = running else { return Poll::Ready(None) };
                if let Some(active_faults) = active_faults
                    && let Err(error) = std::task::ready!(active_faults.poll(context))
                {
                    *running = None;
                    return Poll::Ready(Some(Err(error)));
                }
                let state = future.as_mut().poll(context);
                match slot.take() {
                    Some(frame) => Poll::Ready(Some(Ok(frame))),
                    None => {
                        std::task::ready!(state);
                        *running = None;
                        Poll::Ready(None)
                    }
                }
            }
        }
    }
}

impl Inner {
    /// Whether all bytes have been sent.
    fn is_end(&self) -> bool {
        match self {
            Inner::Whole { bytes, ends_line } => bytes.is_empty() && !ends_line,
            Inner::List { list, encoded } => encoded.is_empty() && list.is_end(),
            Inner::Forwarded { rest, is_end, .. } => *is_end && rest.is_empty(),
            Inner::Gzip { encoder, .. } => encoder.is_none(),
            Inner::Watch { running, .. } => running.is_none(),
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest == Some(0) {
            return Poll::Ready(Some(Err(broken())));
        }
        if !self.is_watch() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        if matches!(self.inner, Inner::List { .. } | Inner::Gzip { .. }) {
            self.yields = !self.yields;
            if !self.yields {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let max = self.frame_max;
        let mut bytes = match std::task::ready!(self.inner.poll_bytes(max, context)) {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        if let Some(rest) = &mut self.rest {
            bytes.truncate(*rest);
            *rest -= bytes.len();
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.inner.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Whole { bytes, ends_line } if self.rest.is_none() => {
                SizeHint::with_exact(bytes.len() as u64 + u64::from(*ends_line))
            }
            _ => SizeHint::default(),
        }
    }
}

/// Shows the size only, because the content may be secret.
impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Whole { bytes, .. } => write!(f, "{} bytes", bytes.len()),
            Inner::List { .. } => f.write_str("list"),
            Inner::Forwarded { .. } => f.write_str("forwarded"),
            Inner::Gzip { .. } => f.write_str("compressed"),
            Inner::Watch { .. } => f.write_str("watch"),
        }
    }
}
