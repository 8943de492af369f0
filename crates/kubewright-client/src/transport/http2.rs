//! A connection of HTTP/2, which carries many answers at a time, and the task that drives it.
//!
//! Over h2 itself: hyper has a task and a channel for each request, to know what has become of it. Here whoever sends a request
//! puts it into the connection, and takes the answer out of it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use kubewright_http2::drive;
use tokio::time::{Instant, Sleep};

use super::failure::{Failure, is_refused, unborn};
use super::killed::Killed;
use super::stream::BoxedStream;
use super::witness::Witness;
use super::{TransportError, TransportErrorKind};

/// The number of streams that is assumed until the server has said how many it takes. An odd one, so that what the
/// server says can be told from it.
const UNSETTLED: usize = 99;
/// How long a server may take to say how many streams it takes before `UNSETTLED` is believed.
const SETTLING: Duration = Duration::from_millis(200);
/// No connection is given more streams than this, whatever the server allows.
const STREAMS_MAX: usize = 1000;
/// What one stream may have on the way. Bounds what a slow reader costs.
const STREAM_WINDOW: u32 = 1 << 20;
/// What all streams together may have on the way: so much that slow readers never hold up the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// The size of all headers of an answer together; warnings can be many.
const HEADERS_MAX: u32 = 256 << 10;

/// Headers that are about a connection of HTTP/1.1. h2 sends no request that has them.
const OF_HTTP1: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// When a connection is asked whether it lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    /// After so much silence; `None` never asks.
    pub(super) interval: Option<Duration>,
    /// How long the answer may take.
    pub(super) timeout: Duration,
}

/// A connection with many streams.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    usage: Arc<Usage>,
    made: Instant,
}

/// How much a connection is used, and what has become of it.
#[derive(Debug)]
struct Usage {
    in_flight: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Why it broke.
    broke: Arc<OnceLock<TransportError>>,
}

/// The right to one stream of a connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<Usage>);

impl Slot {
    /// Why a stream ended. If its connection broke, that knows more of the reason.
    pub(super) fn broken(&self, error: h2::Error) -> TransportError {
        let is_own = error.is_reset();
        let of_connection = self.0.broke.get().filter(|_| !is_own).cloned();
        of_connection.unwrap_or_else(|| TransportError::new(TransportErrorKind::Disconnected, error))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.idle_since.lock().expect("nothing panics under this lock") = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream that a request can be sent on.
pub(super) struct Opening {
    sender: SendRequest<Bytes>,
    slot: Slot,
}

impl Opening {
    /// Sends a request. The slot is to be kept until its answer has ended.
    pub(super) async fn send(mut self, request: Request<Bytes>) -> Result<(Response<RecvStream>, Slot), Failure> {
        let (mut head, body) = request.into_parts();
        for header in OF_HTTP1 {
            head.headers.remove(header);
        }
        let is_expected = !matches!(head.method, Method::GET | Method::HEAD | Method::DELETE);
        if is_expected || !body.is_empty() {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| body.len().into());
        }
        let unsent = |error, slot: &Slot| Failure { is_unseen: true, error: slot.broken(error) };
        let ready = poll_fn(|context| self.sender.poll_ready(context)).await;
        ready.map_err(|error| unsent(error, &self.slot))?;
        let sent = self.sender.send_request(Request::from_parts(head, ()), body.is_empty());
        let (answer, mut stream) = sent.map_err(|error| unsent(error, &self.slot))?;
        if !body.is_empty() {
            // If the server is no longer interested, the answer says why.
            let _ = stream.send_data(body, true);
        }
        match answer.await {
            Ok(answer) => Ok((answer, self.slot)),
            Err(error) => Err(Failure { is_unseen: is_refused(&error), error: self.slot.broken(error) }),
        }
    }
}

impl Http2 {
    /// Greets the server.
    pub(super) async fn new(stream: BoxedStream, health: Health, killed: &Killed) -> Result<Self, TransportError> {
        let broke = Arc::new(OnceLock::new());
        let (stream, mut driver) = drive(Witness::new(stream, Arc::clone(&broke)));
        let mut builder = Builder::new();
        builder
            .initial_max_send_streams(UNSETTLED)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_MAX)
            .enable_push(false);
        let (sender, mut connection) = builder.handshake(stream).await.map_err(unborn)?;
        let mut pulse = connection.ping_pong().and_then(|pings| Pulse::new(pings, health));
        let now = Instant::now();
        let known = Arc::clone(&broke);
        let usage = Arc::new(Usage { in_flight: AtomicUsize::new(0), idle_since: Mutex::new(now), broke });
        killed.spawn(Box::pin(poll_fn(move |context| {
            let polled = pin!(poll_fn(|context| {
                let ended = ready!(Pin::new(&mut connection).poll(context));
                if let Err(error) = ended {
                    let _ = known.set(TransportError::new(TransportErrorKind::Disconnected, error));
                }
                Poll::Ready(())
            }));
            if driver.poll_with(polled, context).is_ready() {
                return Poll::Ready(());
            }
            let Some(pulse) = &mut pulse else { return Poll::Pending };
            // Those who wait for answers learn of it when the connection is dropped.
            let error = ready!(pulse.poll_silence(driver.last_read(), context));
            let _ = known.set(error);
            Poll::Ready(())
        })));
        Ok(Http2 { sender, usage, made: now })
    }

    /// A stream, if one is free.
    pub(super) fn open(&self) -> Option<Opening> {
        // A server that takes none for now may take one later; another connection would not help.
        let limit = self.limit().clamp(1, STREAMS_MAX);
        let taken = self.usage.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            (in_flight < limit).then_some(in_flight + 1)
        });
        taken.ok().map(|_| Opening { sender: self.sender.clone(), slot: Slot(Arc::clone(&self.usage)) })
    }

    /// Whether the server has yet to say how many streams it takes.
    pub(super) fn is_settling(&self) -> bool {
        self.made.elapsed() < SETTLING && self.limit() == UNSETTLED
    }

    /// Whether no new streams can be had: it broke, or the server said good-bye.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.sender.poll_ready(&mut Context::from_waker(std::task::Waker::noop())), Poll::Ready(Err(_)))
    }

    /// Whether nothing has used it for so long.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        self.usage.in_flight.load(Ordering::Acquire) == 0
            && self.usage.idle_since.lock().expect("nothing panics under this lock").elapsed() >= time
    }

    fn limit(&self) -> usize {
        self.sender.current_max_send_streams()
    }
}

/// Asks a silent server whether it lives.
struct Pulse {
    pings: PingPong,
    interval: Duration,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    asked: Option<Instant>,
}

impl Pulse {
    fn new(pings: PingPong, health: Health) -> Option<Self> {
        let (interval, timeout) = (health.interval?, health.timeout);
        Some(Pulse { pings, interval, timeout, timer: Box::pin(tokio::time::sleep(interval)), asked: None })
    }

    /// Ready when the server has said nothing for too long, although it was asked.
    fn poll_silence(&mut self, last_read: Instant, context: &mut Context<'_>) -> Poll<TransportError> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            // Whatever was heard since is a sign of life.
            if self.asked.take().is_some_and(|asked| last_read < asked) {
                let problem = "the server answers no pings";
                return Poll::Ready(TransportError::new(TransportErrorKind::Disconnected, problem));
            }
            let now = Instant::now();
            if last_read + self.interval > now {
                self.timer.as_mut().reset(last_read + self.interval);
                continue;
            }
            // The answer to the last one is taken, to make room for the next.
            let _ = self.pings.poll_pong(context);
            self.asked = self.pings.send_ping(Ping::opaque()).is_ok().then_some(now);
            self.timer.as_mut().reset(now + self.timeout);
        }
    }
}
