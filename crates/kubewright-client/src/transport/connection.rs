//! A connection of HTTP/2, and the task that drives it.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::ready;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use kubewright_http2::drive;
use tokio::sync::watch;
use tokio::time::Instant;

use super::stream::BoxedStream;
use super::{TransportError, TransportErrorKind};
use crate::task::{self, BoxFuture};

/// The body of a request, which is always at hand as a whole.
pub(super) type Payload = Full<Bytes>;

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

/// When a connection is asked whether it lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    /// After so much silence; `None` never asks.
    pub(super) interval: Option<Duration>,
    /// How long the answer may take.
    pub(super) timeout: Duration,
}

/// Ends tasks when told to. One that is never told, also because nobody is left to tell it, runs to its end.
#[derive(Clone)]
pub(super) struct Killed(pub(super) watch::Receiver<bool>);

impl Killed {
    async fn wait(mut self) {
        if self.0.wait_for(|killed| *killed).await.is_err() {
            pending().await
        }
    }

    pub(super) fn spawn(&self, work: BoxFuture<'static, ()>) {
        let killed = self.clone();
        task::spawn(Box::pin(async move {
            tokio::select! {
                () = work => {}
                () = killed.wait() => {}
            }
        }));
    }
}

/// How much a connection is used.
#[derive(Debug)]
pub(super) struct Usage {
    in_flight: AtomicUsize,
    idle_since: Mutex<Instant>,
}

/// One stream of a connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<Usage>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.idle_since.lock().expect("nothing panics under this lock") = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection with many streams.
pub(super) struct Http2 {
    sender: http2::SendRequest<Payload>,
    /// How many streams the server takes; none once the connection has ended.
    limit: Arc<AtomicUsize>,
    usage: Arc<Usage>,
    made: Instant,
}

impl Http2 {
    /// Greets the server.
    pub(super) async fn new(stream: BoxedStream, health: Health, killed: &Killed) -> Result<Self, TransportError> {
        let (stream, streams, mut driver) = drive(stream);
        let mut builder = http2::Builder::new(streams);
        builder
            .timer(TokioTimer::new())
            .initial_max_send_streams(UNSETTLED)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_MAX)
            .keep_alive_interval(health.interval)
            .keep_alive_timeout(health.timeout)
            .keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(unborn)?;
        let limit = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let (known, mut connection) = (Arc::clone(&limit), Some(connection));
        killed.spawn(Box::pin(poll_fn(move |context| {
            if let Some(open) = &mut connection {
                let state = driver.poll_with(Pin::new(open), context);
                known.store(open.current_max_send_streams(), Ordering::Release);
                ready!(state);
                known.store(0, Ordering::Release);
                // Requests that still wait in it are then known to be unsent.
                connection = None;
            }
            driver.poll_rest(context)
        })));
        let now = Instant::now();
        let usage = Arc::new(Usage { in_flight: AtomicUsize::new(0), idle_since: Mutex::new(now) });
        Ok(Http2 { sender, limit, usage, made: now })
    }

    /// A stream, if one is free.
    pub(super) fn lease(&self) -> Option<(http2::SendRequest<Payload>, Slot)> {
        // A server that takes none for now may take one later; another connection would not help.
        let limit = self.limit().clamp(1, STREAMS_MAX);
        let taken = self.usage.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            (in_flight < limit).then_some(in_flight + 1)
        });
        taken.ok().map(|_| (self.sender.clone(), Slot(Arc::clone(&self.usage))))
    }

    /// Whether the server has yet to say how many streams it takes.
    pub(super) fn is_settling(&self) -> bool {
        self.made.elapsed() < SETTLING && self.limit() == UNSETTLED
    }

    /// Whether no new streams can be had: it broke, or the server said good-bye.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether nothing has used it for so long.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        self.usage.in_flight.load(Ordering::Acquire) == 0
            && self.usage.idle_since.lock().expect("nothing panics under this lock").elapsed() >= time
    }

    fn limit(&self) -> usize {
        self.limit.load(Ordering::Acquire)
    }
}

/// A connection that broke before it carried anything.
pub(super) fn unborn(error: hyper::Error) -> TransportError {
    TransportError::new(TransportErrorKind::Connect, error)
}
