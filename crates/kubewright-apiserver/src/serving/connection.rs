//! Serves connections, each in its own task.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use kubewright_core::meta::v1::Status;
use kubewright_net::http2::drive;
use kubewright_streaming::proxy::tunnel;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until};

use super::work::{AbortOnDrop, ConnectionRequests, PendingRequests, guarded};
use super::{http2, preface};
use crate::http::lingering_close::{Leftover, LingeringClose};
use crate::http::{
    ActiveRequest, ApiResponse, ConnectionLimit, ConnectionSlot, IncomingRequest, RequestBody, ResponseBody,
};
use crate::service::{Remote, Service};
use crate::tunnel::Tunnel;
use kubewright_objects::encoding::Wanted;

/// Maximum number of headers of a request over HTTP/1.1.
const HEADERS_MAX: usize = 256;
/// Maximum size of the head of a request. Every connection may hold one before its caller is known,
/// so this times the number of connections has to fit into memory.
pub(super) const HEADER_SIZE: usize = 128 << 10;
/// Time limit for the first bytes of a connection.
pub(super) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the headers of an HTTP/1.1 request. It starts at the end of the last response, so
/// it also limits idle connections. Go's clients and ours close an idle connection after 90 s. The
/// server waits longer, so that no client writes to a connection that is being closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(95);
/// Time limit for a client that does not read.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for running requests when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Serves connections until the server stops, then waits for them.
pub(crate) struct Connections {
    service: Service,
    limit: ConnectionLimit,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl Connections {
    /// Connections to this service.
    pub(crate) fn new(service: Service, limit: ConnectionLimit, stop: watch::Receiver<bool>) -> Self {
        Connections { service, limit, stop, tasks: JoinSet::new() }
    }

    /// Serves a connection in a new task, after `open` has completed the handshake. Closes it if
    /// there are too many.
    pub(crate) fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &mut self,
        open: impl Future<Output = Option<(S, Remote)>> + Send + 'static,
    ) {
        // Remove finished tasks, which would otherwise accumulate.
        while self.tasks.try_join_next().is_some() {}
        let Some(slot) = self.limit.admit() else { return };
        let (service, stop) = (self.service.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = open_and_serve(service, &slot, open, stop) => {}
                () = slot.evicted() => {}
            }
        });
    }

    /// Waits for all connections to end, and aborts them after [`GRACE`].
    pub(crate) async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

async fn open_and_serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    service: Service,
    slot: &ConnectionSlot,
    open: impl Future<Output = Option<(S, Remote)>>,
    mut stop: watch::Receiver<bool>,
) {
    let opened = tokio::select! {
        opened = open => opened,
        _ = stop.wait_for(|stopped| *stopped) => None,
    };
    let Some((stream, remote)) = opened else { return };
    let mut active_faults = service.faults().active_faults();
    let restarts = active_faults.borrow().restarts;
    tokio::select! {
        () = serve(service, remote, slot, stream, stop) => {}
        _ = active_faults.wait_for(|active_faults| active_faults.restarts != restarts) => {}
    }
}

/// Serves a connection until it ends. Errors are ignored: the client notices them itself.
async fn serve(
    service: Service,
    remote: Remote,
    slot: &ConnectionSlot,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut stop: watch::Receiver<bool>,
) {
    let peeked = tokio::select! {
        peeked = preface::peek(stream) => peeked,
        _ = stop.wait_for(|stopped| *stopped) => return,
    };
    let Ok((stream, is_http2)) = peeked else { return };
    let (stream, mut driver) = drive(stream);
    let requests = ConnectionRequests::default();
    if is_http2 {
        let respond = |parts, body| {
            let (service, remote, request, pending) =
                (service.clone(), remote.clone(), slot.begin_request(), requests.add());
            move || respond(service, remote, parts, RequestBody::Http2(body), request, Some(pending))
        };
        let mut connection = pin!(http2::serve(stream, stop, respond));
        let mut stall = WriteDeadline::default();
        return poll_fn(|context| {
            let state = driver.poll_with(connection.as_mut(), context);
            if state.is_ready() { state } else { stall.poll(driver.stalled_since(), context) }
        })
        .await;
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(true).header_read_timeout(HEADER_TIMEOUT);
    builder.max_headers(HEADERS_MAX).max_buf_size(HEADER_SIZE);
    let leftover = Leftover::default();
    let stream = LingeringClose::new(stream, leftover.clone());
    // A client may read a watch as slowly as it likes, because the buffered data are bounded.
    let is_watch = &AtomicBool::new(false);
    // The client's side of an upgrade, and the kubelet's.
    let upgraded = &Mutex::new(None);
    let respond = service_fn(move |mut request: Request<Incoming>| {
        let upgrade = hyper::upgrade::on(&mut request);
        let (mut parts, body) = request.into_parts();
        let (service, remote, leftover, tunnel) =
            (service.clone(), remote.clone(), leftover.clone(), Tunnel::default());
        parts.extensions.insert(tunnel.clone());
        let request = slot.begin_request();
        async move {
            let body = RequestBody::http1(body, leftover.clone());
            let mut response = respond(service, remote, parts, body, request, None).await?;
            let backend = tunnel.take();
            is_watch.store(response.body().is_watch() || backend.is_some(), Ordering::Relaxed);
            if let Some(backend) = backend {
                *upgraded.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, backend));
            } else if leftover.is_set() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, io::Error>(response)
        }
    });
    let serving = async {
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond).with_upgrades());
        let mut stopped = pin!(async { drop(stop.wait_for(|stopped| *stopped).await) });
        tokio::select! {
            _ = connection.as_mut() => {}
            () = stopped.as_mut() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.as_mut().await;
                return;
            }
        }
        let switched = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((client, backend)) = switched
            && let Ok(client) = client.await
        {
            tokio::select! {
                _ = tunnel(TokioIo::new(client), backend) => {}
                () = stopped => {}
            }
        }
    };
    let (mut serving, mut stall) = (pin!(serving), WriteDeadline::default());
    poll_fn(|context| {
        let state = driver.poll_with(serving.as_mut(), context);
        if state.is_ready() {
            return state;
        }
        let stalled_since = driver.stalled_since().filter(|_| !is_watch.load(Ordering::Relaxed));
        stall.poll(stalled_since, context)
    })
    .await;
}

/// Ends a connection whose client does not read.
#[derive(Default)]
struct WriteDeadline {
    timer: Option<Pin<Box<Sleep>>>,
}

impl WriteDeadline {
    /// Ready when the client has read nothing for [`WRITE_TIMEOUT`].
    fn poll(&mut self, stalled_since: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(since) = stalled_since else {
            self.timer = None;
            return Poll::Pending;
        };
        let deadline = since + WRITE_TIMEOUT;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

/// Handles a request. `pending` is set for HTTP/2, where a connection has concurrent requests.
async fn respond(
    service: Service,
    remote: Remote,
    parts: Parts,
    body: RequestBody,
    request: ActiveRequest,
    pending: Option<PendingRequests>,
) -> io::Result<Response<ResponseBody>> {
    let asked = IncomingRequest::new(parts, body);
    // The streams of a connection share its task. Work that may take long has a task of its own,
    // and so has every request that would delay another one.
    let answered = if pending.as_ref().is_none_or(|pending| pending.is_alone() && asked.is_about_one()) {
        guarded(pin!(service.serve(&remote, asked))).await
    } else {
        AbortOnDrop::spawn(async move { service.serve(&remote, asked).await }).await.ok()
    };
    let response = answered.unwrap_or_else(|| {
        let status = Status::internal("the server failed to handle this request");
        Ok(ApiResponse::rejection(status.into(), Wanted::JSON).into_response())
    })?;
    Ok(response.map(|body| body.of_request(request)))
}
