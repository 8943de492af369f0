//! Bodies of responses: whole, encoded while they are sent, or a watch; and the faults that break
//! them.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::connection_limit::ActiveRequest;
use super::in_flight::Place;
use super::memory::Reservation;
use crate::encoding::JsonList;
use crate::faults::Weather;
use crate::registry::{Slot, WatchStream};
use crate::seldom::Seldom;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The most bytes of a frame on a connection. A connection buffers a few frames.
const FRAME_MAX: usize = 32 << 10;

/// The body of a response.
///
/// Fails where a fault was injected, and where it is not read before the deadline of its request.
pub struct Body {
    inner: Inner,
    /// The most bytes of a frame.
    frame_max: usize,
    /// Whether other tasks have their turn before the next frame is encoded.
    yields: bool,
    deadline: Option<Instant>,
    /// After how many bytes it breaks off, if it does.
    rest: Option<usize>,
    // Held until the response is sent.
    _place: Place,
    _memory: Reservation,
    _request: Option<ActiveRequest>,
}

enum Inner {
    Whole(Bytes),
    List {
        list: Box<JsonList>,
        /// Encoded, and not yet in a frame.
        encoded: Bytes,
    },
    Gzip {
        source: Box<Inner>,
        /// Absent after the last frame.
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    Watch {
        /// Polled for the next frame, which it puts into the slot; absent after the last one.
        running: Option<Running>,
        slot: Slot,
        weather: Option<Under>,
    },
}

/// A watch's share in what concerns all watches.
struct Under {
    weather: watch::Receiver<Weather>,
    /// Done when the watch is cut.
    cut: Seldom<Weather>,
    /// Done when the server is no longer frozen, while it is.
    thaw: Option<Seldom<Weather>>,
}

impl Body {
    fn new(inner: Inner) -> Self {
        Body {
            inner,
            frame_max: usize::MAX,
            yields: false,
            deadline: None,
            rest: None,
            _place: Place::default(),
            _memory: Reservation::default(),
            _request: None,
        }
    }

    /// The length before compression, if it is known. That of a list is an estimate.
    pub(super) fn length(&self) -> Option<usize> {
        match &self.inner {
            Inner::Whole(bytes) => Some(bytes.len()),
            Inner::List { list, .. } => Some(list.length()),
            Inner::Gzip { .. } | Inner::Watch { .. } => None,
        }
    }

    pub(super) fn is_watch(&self) -> bool {
        matches!(self.inner, Inner::Watch { .. })
    }

    /// The same, compressed while it is sent.
    pub(super) fn compressed(mut self) -> Self {
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        let source = Box::new(std::mem::replace(&mut self.inner, Inner::Whole(Bytes::new())));
        self.inner = Inner::Gzip { source, encoder };
        self
    }

    /// The same, but it breaks off after the deadline, unless it is a watch.
    pub(crate) fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same, and these bytes of a budget are reserved until the body is dropped.
    pub(crate) fn holding(mut self, memory: Reservation) -> Self {
        self._memory = memory;
        self
    }

    /// The same, but a watch breaks when all are cut, and pauses while the server is frozen.
    pub(crate) fn under(mut self, weather: watch::Receiver<Weather>) -> Self {
        if let Inner::Watch { weather: under, .. } = &mut self.inner {
            *under = Some(Under::new(weather));
        }
        self
    }

    /// The same, and the request counts as in flight until the body is dropped.
    pub(crate) fn in_place(mut self, place: Place) -> Self {
        self._place = place;
        self
    }

    /// The same in frames for a connection, which is not idle until the body is dropped.
    pub(super) fn of_request(mut self, request: ActiveRequest) -> Self {
        self.frame_max = FRAME_MAX;
        self._request = Some(request);
        self
    }

    /// The same, but it breaks off after so many bytes.
    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        self.rest = Some(bytes);
        self
    }
}

impl Under {
    fn new(weather: watch::Receiver<Weather>) -> Self {
        let cuts = weather.borrow().cuts;
        // Without a server there is nobody left to send anything.
        let cut = Seldom::new(&weather, move |weather| weather.cuts != cuts);
        let mut under = Under { weather, cut, thaw: None };
        under.look();
        under
    }

    /// Ready with an error when the watch is cut, pending while the server is frozen, and ready if there is nothing.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.cut.poll(context).is_ready() {
            return Poll::Ready(Err(broken()));
        }
        if self.thaw.is_none() && self.weather.has_changed().unwrap_or(true) {
            self.look();
        }
        if let Some(thaw) = &mut self.thaw {
            std::task::ready!(thaw.poll(context));
            self.thaw = None;
        }
        Poll::Ready(Ok(()))
    }

    fn look(&mut self) {
        if self.weather.borrow_and_update().is_frozen {
            self.thaw = Some(Seldom::new(&self.weather, |weather| !weather.is_frozen));
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "a fault was injected: the stream was cut")
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::new(Inner::Whole(bytes))
    }
}

impl From<JsonList> for Body {
    fn from(list: JsonList) -> Self {
        Body::new(Inner::List { list: Box::new(list), encoded: Bytes::new() })
    }
}

impl From<WatchStream> for Body {
    fn from(stream: WatchStream) -> Self {
        let slot = Slot::default();
        // Many watches share the task of a connection, and would use up its turn at the first event. Each has a bounded part in it:
        // a frame, if there is one.
        let running = Some(Box::pin(unconstrained(stream.run(slot.clone()))) as Running);
        Body::new(Inner::Watch { running, slot, weather: None })
    }
}

impl Inner {
    /// The next bytes, at most `max` of them unless it is a watch.
    fn poll_bytes(&mut self, max: usize, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Inner::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole(bytes) => Poll::Ready(Some(Ok(bytes.split_to(bytes.len().min(max))))),
            Inner::List { list, encoded } => {
                if encoded.is_empty() {
                    let Some(next) = list.next() else { return Poll::Ready(None) };
                    *encoded = next;
                }
                Poll::Ready(Some(Ok(encoded.split_to(encoded.len().min(max)))))
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
                    // The rest of the compressed bytes comes with this frame.
                    let rest = encoder.take().map_or(Ok(Vec::new()), GzEncoder::finish);
                    let all = written.and(rest).map(|rest| [compressed, rest.into()].concat().into());
                    return Poll::Ready(Some(all));
                }
                Poll::Ready(Some(written.map(|()| compressed)))
            }
            Inner::Watch { running, slot, weather } => {
                let Some(future) = running else { return Poll::Ready(None) };
                if let Some(weather) = weather
                    && let Err(error) = std::task::ready!(weather.poll(context))
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
    /// Whether there are no more bytes.
    fn is_end(&self) -> bool {
        match self {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::List { list, encoded } => encoded.is_empty() && list.is_end(),
            Inner::Gzip { encoder, .. } => encoder.is_none(),
            Inner::Watch { running, .. } => running.is_none(),
        }
    }
}

impl hyper::body::Body for Body {
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
            Inner::Whole(bytes) if self.rest.is_none() => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// Says how much there is, not what: it may be secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Inner::List { .. } => f.write_str("list"),
            Inner::Gzip { .. } => f.write_str("compressed"),
            Inner::Watch { .. } => f.write_str("watch"),
        }
    }
}
