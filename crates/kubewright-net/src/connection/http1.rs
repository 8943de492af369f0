//! An HTTP/1.1 connection, with one request at a time.
//!
//! A task drives it until a reader waits for a body: then the reader drives it. A watch arrives in
//! small chunks, and passing each between tasks would cost more than reading it.

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

use super::cancel::CancelSignal;
use super::failure::connect_error;
use crate::transport::BoxedStream;
use crate::transport::TransportError;

/// A request body, always buffered.
type Payload = Full<Bytes>;

/// A connection for one request at a time.
pub(super) struct Http1 {
    sender: SendRequest<Payload>,
    driver: Arc<SharedDriver>,
    /// Whether a reader has driven the connection, so that its task has missed events.
    is_taken: bool,
}

/// The connection, driven alternately by the task and a reader: the last one to poll is woken.
struct SharedDriver {
    state: Mutex<DriverState>,
}

struct DriverState {
    /// `None` after the end.
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    task: Option<Waker>,
}

/// Ends the connection together with its task.
struct DriverTask(Arc<SharedDriver>);

impl Http1 {
    /// Performs the HTTP handshake.
    pub(super) async fn new(stream: BoxedStream, cancel: &CancelSignal) -> Result<Self, TransportError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(connect_error)?;
        let connection = Some(Box::pin(connection.with_upgrades()) as _);
        let driver = Arc::new(SharedDriver { state: Mutex::new(DriverState { connection, task: None }) });
        let task = DriverTask(Arc::clone(&driver));
        // Driven here until it is ready, which is immediate; waiting for its task would take
        // longer.
        let ready = poll_fn(|context| {
            let _ = driver.poll(context);
            sender.poll_ready(context)
        });
        ready.await.map_err(connect_error)?;
        cancel.spawn(Box::pin(poll_fn(move |context| task.poll(context))));
        Ok(Http1 { sender, driver, is_taken: false })
    }

    /// Whether a request can be sent now.
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

    /// Sends a request; returns it if no byte was sent.
    pub(super) fn send(
        &mut self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Payload>>>> + use<> {
        self.sender.try_send_request(request.map(Full::new))
    }

    /// Drives the connection for a reader of a body.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        self.is_taken = true;
        if self.driver.poll(context).is_ready() {
            self.give_back();
        }
    }

    /// Lets the connection's task drive it again.
    fn give_back(&mut self) {
        if std::mem::take(&mut self.is_taken)
            && let Some(task) = self.driver.state().task.take()
        {
            task.wake();
        }
    }
}

/// Also in the middle of a body: its task then closes the connection.
impl Drop for Http1 {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl SharedDriver {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let Some(connection) = &mut state.connection else { return Poll::Ready(()) };
        if connection.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        // Errors are reported to the waiter for a response.
        state.connection = None;
        Poll::Ready(())
    }

    fn state(&self) -> MutexGuard<'_, DriverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DriverTask {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.state().task = Some(context.waker().clone());
        self.0.poll(context)
    }
}

impl Drop for DriverTask {
    fn drop(&mut self) {
        let ended = self.0.state().connection.take();
        drop(ended);
    }
}
