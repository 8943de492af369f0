//! Serves an HTTP/2 connection with its requests and watches.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use hyper::body::Body as _;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use kubewright_net::http2::Doorbell;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::{HEADER_SIZE, WRITE_TIMEOUT};
use super::date::Date;
use super::idle::{IdleTimer, Verdict};
use super::watches::{WatchPoller, WatchResponse};
use crate::channel_condition::ChannelCondition;
use crate::http::ResponseBody;

/// Flow control window for each stream, and for the connection.
const WINDOW: u32 = 1 << 20;
/// Maximum buffered response data per connection, in bytes.
const SEND_BUFFER: usize = 64 << 10;
/// Smaller bodies are sent without waiting for capacity.
const SMALL: usize = 4 << 10;
/// Maximum number of concurrent streams, including watches.
const STREAMS_MAX: u32 = 200;

/// Handles a request. Returns the watch if the response is one.
type Exchange = Pin<Box<dyn Future<Output = Option<WatchResponse>> + Send>>;

/// A received request with its response stream.
type AcceptedStream = Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>;

/// A connection with all its streams, polled by a single task.
struct Http2Connection<S> {
    connection: Connection<S, Bytes>,
    /// Wakes the connection task, mostly for its own streams.
    bell: Doorbell,
    requests: FuturesUnordered<Exchange>,
    watches: WatchPoller,
    date: Date,
    /// Whether a request arrived since the last idle check.
    is_used: bool,
}

/// Serves a connection until it ends. Accepts no more requests after `stop`.
pub(super) async fn serve<S, A, F>(stream: S, mut stop: watch::Receiver<bool>, respond: impl Fn(Parts, RecvStream) -> A)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: FnOnce() -> F + Send + 'static,
    F: Future<Output = io::Result<Response<ResponseBody>>> + Send + 'static,
{
    let mut builder = Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    builder.max_send_buffer_size(SEND_BUFFER);
    builder.max_concurrent_streams(STREAMS_MAX).max_header_list_size(HEADER_SIZE as u32);
    let opened = tokio::select! {
        opened = builder.handshake(stream) => opened,
        _ = stop.wait_for(|stopped| *stopped) => return,
    };
    let Ok(connection) = opened else { return };
    let mut serving = Http2Connection {
        connection,
        bell: Doorbell::default(),
        requests: FuturesUnordered::new(),
        watches: WatchPoller::default(),
        date: Date::default(),
        is_used: false,
    };
    let mut idle = IdleTimer::default();
    let mut stop = Some(ChannelCondition::new(&stop, |stopped| *stopped));
    poll_fn(|context| {
        if stop.as_mut().is_some_and(|stop| stop.poll(context).is_ready()) {
            stop = None;
            serving.connection.graceful_shutdown();
        }
        match idle.poll(context, || serving.was_used()) {
            Poll::Ready(Verdict::ShutDown) => serving.connection.graceful_shutdown(),
            Poll::Ready(Verdict::Close) => return Poll::Ready(()),
            Poll::Pending => {}
        }
        serving.poll(&respond, context)
    })
    .await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2Connection<S> {
    /// Ready when the connection has ended. Errors are ignored: the client notices them itself.
    fn poll<A, F>(&mut self, respond: &impl Fn(Parts, RecvStream) -> A, context: &mut Context<'_>) -> Poll<()>
    where
        A: FnOnce() -> F + Send + 'static,
        F: Future<Output = io::Result<Response<ResponseBody>>> + Send + 'static,
    {
        self.bell.wake_later(context.waker());
        let waker = self.bell.waker();
        let mut own = Context::from_waker(&waker);
        self.bell.begin();
        loop {
            self.poll_streams(context);
            let mut has_accepted = false;
            while let Poll::Ready(accepted) = self.poll_accept(&mut own) {
                let Some(Ok((request, reply))) = accepted else { return Poll::Ready(()) };
                let (parts, body) = request.into_parts();
                let has_body = parts.method != Method::HEAD;
                let mut exchange: Exchange = Box::pin(exchange(respond(parts, body), reply, has_body, self.date.now()));
                // Most requests complete at once and need no entry in `requests`.
                match exchange.as_mut().poll(context) {
                    Poll::Ready(watch) => watch.into_iter().for_each(|watch| self.watches.add(watch)),
                    Poll::Pending => self.requests.push(exchange),
                }
                has_accepted = true;
            }
            self.is_used |= has_accepted;
            // The connection has flushed these responses, which may unblock watches.
            if !has_accepted || self.requests.is_empty() && !self.watches.is_rung() {
                break;
            }
        }
        if !self.bell.rest() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads and writes, and accepts the next request.
    fn poll_accept(&mut self, own: &mut Context<'_>) -> Poll<Option<AcceptedStream>> {
        // Earlier wake-ups, mostly for data to be written, are handled by this call.
        self.bell.begin();
        self.connection.poll_accept(own)
    }

    /// Whether a request arrived since the last call or is still under way. A response in the send
    /// buffer does not count.
    fn was_used(&mut self) -> bool {
        std::mem::take(&mut self.is_used) || !self.requests.is_empty() || !self.watches.is_empty()
    }

    fn poll_streams(&mut self, context: &mut Context<'_>) {
        while !self.requests.is_empty()
            && let Poll::Ready(Some(watch)) = Pin::new(&mut self.requests).poll_next(context)
        {
            watch.into_iter().for_each(|watch| self.watches.add(watch));
        }
        self.watches.poll(context);
    }
}

/// Handles a request and sends its response, unless the client cancels the stream.
///
/// The future is created here, because it is large and passing it would copy it.
async fn exchange<F: Future<Output = io::Result<Response<ResponseBody>>>>(
    answer: impl FnOnce() -> F,
    mut reply: SendResponse<Bytes>,
    has_body: bool,
    date: HeaderValue,
) -> Option<WatchResponse> {
    let response = {
        let mut answered = pin!(answer());
        poll_fn(|context| match answered.as_mut().poll(context) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => reply.poll_reset(context).map(|_| None),
        })
        .await?
    };
    let Ok(response) = response else {
        reply.send_reset(Reason::INTERNAL_ERROR);
        return None;
    };
    let (mut head, mut body) = response.into_parts();
    head.headers.entry(DATE).or_insert(date);
    let is_empty = body.is_end_stream();
    if let Some(length) = body.size_hint().exact().filter(|_| !is_empty) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    let is_over = is_empty || !has_body;
    let mut stream = reply.send_response(Response::from_parts(head, ()), is_over).ok()?;
    if is_over {
        return None;
    }
    if body.is_watch() {
        return Some(WatchResponse::new(stream, body));
    }
    let is_small = body.size_hint().exact().is_some_and(|length| length <= SMALL as u64);
    loop {
        let (bytes, is_last) = match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), body.is_end_stream()),
            Some(Err(_)) => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return None;
            }
            None => (Bytes::new(), true),
        };
        if bytes.is_empty() && !is_last {
            continue;
        }
        if is_small || bytes.is_empty() {
            stream.send_data(bytes, is_last).ok()?;
        } else {
            send(&mut stream, bytes, is_last).await?;
        }
        if is_last {
            return None;
        }
    }
}

/// Sends data as fast as flow control allows. Aborts the response if the client reads nothing for
/// [`WRITE_TIMEOUT`].
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes, is_last: bool) -> Option<()> {
    while !bytes.is_empty() {
        let room = timeout(WRITE_TIMEOUT, poll_fn(|context| poll_room(stream, bytes.len(), context))).await;
        let Ok(room) = room else {
            stream.send_reset(Reason::CANCEL);
            return None;
        };
        let part = bytes.split_to(room?.min(bytes.len()));
        stream.send_data(part, is_last && bytes.is_empty()).ok()?;
    }
    Some(())
}

/// The number of bytes that flow control allows now, up to `wanted`. `None` if the stream is
/// closed.
fn poll_room(stream: &mut SendStream<Bytes>, wanted: usize, context: &mut Context<'_>) -> Poll<Option<usize>> {
    stream.reserve_capacity(wanted);
    while stream.capacity() == 0 {
        match std::task::ready!(stream.poll_capacity(context)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(None),
        }
    }
    Poll::Ready(Some(stream.capacity()))
}
