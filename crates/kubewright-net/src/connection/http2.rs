//! An HTTP/2 connection, with many concurrent requests, and the task that drives it.
//!
//! Built directly on h2: hyper uses a task and a channel per request. Here the sender writes the
//! request into the connection and reads the response from it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::http2::drive;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use tokio::time::{Instant, Sleep};

use super::cancel::CancelSignal;
use super::error_recorder::ErrorRecorder;
use super::failure::{RequestFailure, connect_error, is_refused};
use crate::transport::BoxedStream;
use crate::transport::{TransportError, TransportErrorKind};

/// The assumed stream limit until the server has sent its settings. Odd, to distinguish it from the
/// server's value.
const ASSUMED_STREAMS: usize = 99;
/// How long to wait for the server's settings before `ASSUMED_STREAMS` applies.
const SETTINGS_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum number of streams per connection, whatever the server allows.
const STREAMS_MAX: usize = 1000;
/// Flow-control window of a stream. Bounds the cost of a slow reader.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of a connection: so large that slow readers never block others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Limit on the headers of a response; there may be many warnings.
const HEADERS_MAX: u32 = 256 << 10;

/// Headers of HTTP/1.1 connections, which h2 rejects.
const OF_HTTP1: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// Ping settings of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct PingOptions {
    /// Idle time before a ping; `None` disables pings.
    pub(super) interval: Option<Duration>,
    /// Timeout of a reply.
    pub(super) timeout: Duration,
}

/// A connection with many streams.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    usage: Arc<ConnectionUsage>,
    made: Instant,
}

/// Usage and state of a connection.
#[derive(Debug)]
struct ConnectionUsage {
    in_flight: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Why it broke.
    broke: Arc<OnceLock<TransportError>>,
}

/// A permit for one stream of a connection, returned on drop.
#[derive(Debug)]
pub(super) struct StreamPermit(Arc<ConnectionUsage>);

impl StreamPermit {
    /// The error of a stream. If its connection broke, that has the better reason.
    pub(super) fn broken_connection(&self, error: h2::Error) -> TransportError {
        let is_own = error.is_reset();
        let of_connection = self.0.broke.get().filter(|_| !is_own).cloned();
        of_connection.unwrap_or_else(|| TransportError::new(TransportErrorKind::Disconnected, error))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        *self.0.idle_since.lock().expect("nothing panics under this lock") = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream for one request.
pub(super) struct OpenStream {
    sender: SendRequest<Bytes>,
    slot: StreamPermit,
}

impl OpenStream {
    /// Sends a request. Keep the slot until its response has ended.
    pub(super) async fn send(
        mut self,
        request: Request<Bytes>,
    ) -> Result<(Response<RecvStream>, StreamPermit), RequestFailure> {
        let (mut head, body) = request.into_parts();
        for header in OF_HTTP1 {
            head.headers.remove(header);
        }
        let is_expected = !matches!(head.method, Method::GET | Method::HEAD | Method::DELETE);
        if is_expected || !body.is_empty() {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| body.len().into());
        }
        let unsent =
            |error, slot: &StreamPermit| RequestFailure { is_unseen: true, error: slot.broken_connection(error) };
        let ready = poll_fn(|context| self.sender.poll_ready(context)).await;
        ready.map_err(|error| unsent(error, &self.slot))?;
        let sent = self.sender.send_request(Request::from_parts(head, ()), body.is_empty());
        let (answer, mut stream) = sent.map_err(|error| unsent(error, &self.slot))?;
        if !body.is_empty() {
            // If the server does not want the body, its response tells why.
            let _ = stream.send_data(body, true);
        }
        match answer.await {
            Ok(answer) => Ok((answer, self.slot)),
            Err(error) => {
                Err(RequestFailure { is_unseen: is_refused(&error), error: self.slot.broken_connection(error) })
            }
        }
    }
}

impl Http2 {
    /// Performs the HTTP/2 handshake.
    pub(super) async fn new(
        stream: BoxedStream,
        health: PingOptions,
        cancel: &CancelSignal,
    ) -> Result<Self, TransportError> {
        let broke = Arc::new(OnceLock::new());
        let (stream, mut driver) = drive(ErrorRecorder::new(stream, Arc::clone(&broke)));
        let mut builder = Builder::new();
        builder
            .initial_max_send_streams(ASSUMED_STREAMS)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_MAX)
            .enable_push(false);
        let (sender, mut connection) = builder.handshake(stream).await.map_err(connect_error)?;
        let mut pulse = connection.ping_pong().and_then(|pings| KeepAlive::new(pings, health));
        let now = Instant::now();
        let known = Arc::clone(&broke);
        let usage = Arc::new(ConnectionUsage { in_flight: AtomicUsize::new(0), idle_since: Mutex::new(now), broke });
        cancel.spawn(Box::pin(poll_fn(move |context| {
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
            // Waiters for responses learn of it when the connection is dropped.
            let error = ready!(pulse.poll_silence(driver.last_read(), context));
            let _ = known.set(error);
            Poll::Ready(())
        })));
        Ok(Http2 { sender, usage, made: now })
    }

    /// A stream, if one is free.
    pub(super) fn open(&self) -> Option<OpenStream> {
        // A server with a limit of zero may raise it later; another connection would not help.
        let limit = self.limit().clamp(1, STREAMS_MAX);
        let taken = self.usage.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            (in_flight < limit).then_some(in_flight + 1)
        });
        taken.ok().map(|_| OpenStream { sender: self.sender.clone(), slot: StreamPermit(Arc::clone(&self.usage)) })
    }

    /// Whether the server has not sent its settings yet.
    pub(super) fn is_settling(&self) -> bool {
        self.made.elapsed() < SETTINGS_TIMEOUT && self.limit() == ASSUMED_STREAMS
    }

    /// Whether it accepts no new streams: it broke, or the server sent GOAWAY.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.sender.poll_ready(&mut Context::from_waker(std::task::Waker::noop())), Poll::Ready(Err(_)))
    }

    /// Whether it has been idle for this long.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        self.usage.in_flight.load(Ordering::Acquire) == 0
            && self.usage.idle_since.lock().expect("nothing panics under this lock").elapsed() >= time
    }

    fn limit(&self) -> usize {
        self.sender.current_max_send_streams()
    }
}

/// Pings a silent server.
struct KeepAlive {
    pings: PingPong,
    interval: Duration,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    asked: Option<Instant>,
}

impl KeepAlive {
    fn new(pings: PingPong, health: PingOptions) -> Option<Self> {
        let (interval, timeout) = (health.interval?, health.timeout);
        Some(KeepAlive { pings, interval, timeout, timer: Box::pin(tokio::time::sleep(interval)), asked: None })
    }

    /// Ready when the server has not answered a ping in time.
    fn poll_silence(&mut self, last_read: Instant, context: &mut Context<'_>) -> Poll<TransportError> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            // Anything received since counts as an answer.
            if self.asked.take().is_some_and(|asked| last_read < asked) {
                let problem = "ping timeout";
                return Poll::Ready(TransportError::new(TransportErrorKind::Disconnected, problem));
            }
            let now = Instant::now();
            if last_read + self.interval > now {
                self.timer.as_mut().reset(last_read + self.interval);
                continue;
            }
            // Consumes the last reply, to allow the next ping.
            let _ = self.pings.poll_pong(context);
            self.asked = self.pings.send_ping(Ping::opaque()).is_ok().then_some(now);
            self.timer.as_mut().reset(now + self.timeout);
        }
    }
}
