//! A connection of HTTP/1.1, which carries one answer at a time.
//!
//! A task drives it until somebody waits for the body of an answer: then the reader does so itself. A watch comes in small
//! chunks, and handing each from task to task would cost more than reading it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::TransportError;
use super::failure::unborn;
use super::killed::Killed;
use super::stream::BoxedStream;

/// The body of a request, which is always at hand as a whole.
type Payload = Full<Bytes>;

/// A connection for one request at a time.
pub(super) struct Http1 {
    sender: SendRequest<Payload>,
    line: Arc<Line>,
    /// Whether the reader of a body has been driving it, so that its task knows nothing of what has become of it.
    is_taken: bool,
}

/// The connection itself, which the task and a reader drive in turn: whoever was there last is woken.
struct Line {
    state: Mutex<State>,
}

struct State {
    /// Absent after the end.
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    task: Option<Waker>,
}

/// Ends the connection together with its task, whoever drives it.
struct Task(Arc<Line>);

impl Http1 {
    /// Greets the server.
    pub(super) async fn new(stream: BoxedStream, killed: &Killed) -> Result<Self, TransportError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unborn)?;
        let connection = Some(Box::pin(connection.with_upgrades()) as _);
        let line = Arc::new(Line { state: Mutex::new(State { connection, task: None }) });
        let task = Task(Arc::clone(&line));
        // Driven from here until it is ready, which is at once: its task would have to be waited for.
        let ready = poll_fn(|context| {
            let _ = line.poll(context);
            sender.poll_ready(context)
        });
        ready.await.map_err(unborn)?;
        killed.spawn(Box::pin(poll_fn(move |context| task.poll(context))));
        Ok(Http1 { sender, line, is_taken: false })
    }

    /// Whether a request can be sent at once.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Resolves when a request can be sent.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        self.give_back();
        self.sender.ready().await
    }

    /// Sends a request; gives it back where no byte of it has left.
    pub(super) fn send(
        &mut self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Payload>>>> + use<> {
        self.sender.try_send_request(request.map(Full::new))
    }

    /// Drives the connection for the sake of a body that is being waited for.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        self.is_taken = true;
        if self.line.poll(context).is_ready() {
            self.give_back();
        }
    }

    /// Lets the task of the connection see to it again.
    fn give_back(&mut self) {
        if std::mem::take(&mut self.is_taken)
            && let Some(task) = self.line.state().task.take()
        {
            task.wake();
        }
    }
}

/// Also in the middle of a body, whose connection is of no further use: its task closes it.
impl Drop for Http1 {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Line {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let Some(connection) = &mut state.connection else { return Poll::Ready(()) };
        if connection.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        // Errors are told to whoever waits for an answer.
        state.connection = None;
        Poll::Ready(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.state().task = Some(context.waker().clone());
        self.0.poll(context)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let ended = self.0.state().connection.take();
        drop(ended);
    }
}
