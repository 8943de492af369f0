//! Bodies of answers: complete, or a watch that goes on; and how they break, where a fault wants it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::task::unconstrained;

use super::connection_limit::ActiveRequest;
use super::in_flight::Place;
use crate::faults::Weather;
use crate::registry::{Slot, WatchStream};
use crate::seldom::Seldom;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of an answer. Fails only where a fault was injected.
pub struct Body {
    inner: Inner,
    /// After how many bytes it breaks off, if it does.
    rest: Option<usize>,
    /// Held until the response is sent.
    _place: Place,
    _request: Option<ActiveRequest>,
}

enum Inner {
    Full(Bytes),
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
        Body { inner, rest: None, _place: Place::default(), _request: None }
    }

    /// The bytes, unless the body is a watch.
    pub(crate) fn as_bytes(&self) -> Option<&Bytes> {
        match &self.inner {
            Inner::Full(bytes) => Some(bytes),
            Inner::Watch { .. } => None,
        }
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

    /// The same, and the connection is not idle until the body is dropped.
    pub(super) fn of_request(mut self, request: ActiveRequest) -> Self {
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
        Body::new(Inner::Full(bytes))
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
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Inner::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Full(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
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

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest == Some(0) {
            return Poll::Ready(Some(Err(broken())));
        }
        let mut bytes = match std::task::ready!(self.inner.poll_bytes(context)) {
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
        self.rest.is_none()
            && match &self.inner {
                Inner::Full(bytes) => bytes.is_empty(),
                Inner::Watch { running, .. } => running.is_none(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Full(bytes) if self.rest.is_none() => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// Says how much there is, not what: it may be secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Full(bytes) => write!(f, "{} bytes", bytes.len()),
            Inner::Watch { .. } => f.write_str("watch"),
        }
    }
}
