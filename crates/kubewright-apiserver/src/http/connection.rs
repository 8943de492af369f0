//! Connections, each served by a task that somebody owns.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use kubewright_core::meta::v1::Status;
use kubewright_http2::drive;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::lingering::{Leftover, Lingering};
use super::work::{Owned, Pending, Requests, guarded};
use super::{Answer, Body, http2, preface};
use crate::authentication::Peer;
use crate::encoding::Wanted;
use crate::request::Asked;
use crate::service::Service;

/// The largest body that is taken.
pub(super) const BODY_MAX: usize = 3 << 20;
/// How many headers a request may have, and how large they may be.
const HEADERS_MAX: usize = 256;
pub(super) const HEADER_SIZE: usize = 1 << 20;
/// How long a client may take to say its first word.
pub(super) const FIRST_TIME: Duration = Duration::from_secs(30);
/// How long a client of HTTP/1.1 may take to the end of its next headers. Counted from the last answer, so that it is how long an unused
/// connection is kept as well: a little longer than Go's clients and ours keep theirs, which is 90 s, so that nobody writes into one that is
/// just being closed.
const HEADER_TIME: Duration = Duration::from_secs(95);
/// How long a client may take to send a body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long requests may still take when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Serves connections until it is told to stop, and waits for all of them.
pub(crate) struct Connections {
    service: Service,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl Connections {
    /// Connections to this service.
    pub(crate) fn new(service: Service, stop: watch::Receiver<bool>) -> Self {
        Connections { service, stop, tasks: JoinSet::new() }
    }

    /// Serves a connection that `open` completes, for example by a handshake, in a task of its own.
    pub(crate) fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &mut self,
        open: impl Future<Output = Option<(S, Peer)>> + Send + 'static,
    ) {
        let (service, mut stop) = (self.service.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            let opened = tokio::select! {
                opened = open => opened,
                _ = stop.wait_for(|stopped| *stopped) => None,
            };
            let Some((stream, peer)) = opened else { return };
            let mut weather = service.faults().weather();
            let restarts = weather.borrow().restarts;
            tokio::select! {
                () = serve(service, peer, stream, stop) => {}
                _ = weather.wait_for(|weather| weather.restarts != restarts) => {}
            }
        });
        // Those that have ended need no place.
        while self.tasks.try_join_next().is_some() {}
    }

    /// Waits for all connections to end, for a while.
    pub(crate) async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

/// Serves a connection until it ends. How it did is for its client to know.
async fn serve(
    service: Service,
    peer: Peer,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut stop: watch::Receiver<bool>,
) {
    let begun = tokio::select! {
        begun = preface::look(stream) => begun,
        _ = stop.wait_for(|stopped| *stopped) => return,
    };
    let Ok((stream, is_http2)) = begun else { return };
    let (stream, mut driver) = drive(stream);
    let requests = Requests::default();
    if is_http2 {
        let respond = |parts, body| {
            let (service, peer, pending) = (service.clone(), peer.clone(), requests.add());
            move || respond(service, peer, parts, http2::collect(body), Some(pending))
        };
        let mut connection = pin!(http2::serve(stream, stop, respond));
        return poll_fn(|context| driver.poll_with(connection.as_mut(), context)).await;
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(true).header_read_timeout(HEADER_TIME);
    builder.max_headers(HEADERS_MAX).max_buf_size(HEADER_SIZE);
    let leftover = Leftover::default();
    let stream = Lingering::new(stream, leftover.clone());
    let respond = service_fn(move |request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        let (service, peer, leftover) = (service.clone(), peer.clone(), leftover.clone());
        async move {
            let mut is_read = false;
            let body = async { collect(body).await.inspect(|_| is_read = true) };
            let mut response = respond(service, peer, parts, body, None).await?;
            if !is_read {
                leftover.leave();
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, io::Error>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    tokio::select! {
        () = poll_fn(|context| driver.poll_with(connection.as_mut(), context)) => return,
        _ = stop.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    poll_fn(|context| driver.poll_with(connection.as_mut(), context)).await;
}

/// Why a body was not read.
pub(super) enum Unread {
    TooLarge,
    Broken(String),
}

async fn collect(body: Incoming) -> Result<Bytes, Unread> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Unread::TooLarge),
        Err(error) => Err(Unread::Broken(error.to_string())),
    }
}

/// Answers a request; one of many on a connection if it is `pending`.
async fn respond(
    service: Service,
    peer: Peer,
    parts: Parts,
    body: impl Future<Output = Result<Bytes, Unread>>,
    pending: Option<Pending>,
) -> io::Result<Response<Body>> {
    let refusal = match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => {
            let asked = Asked::new(Request::from_parts(parts, body));
            // The streams of a connection share its task. They do not share work that may take long, nor wait for each other's.
            let answered = if pending.as_ref().is_none_or(|pending| pending.is_alone() && asked.is_about_one()) {
                guarded(pin!(service.serve(&peer, asked))).await
            } else {
                Owned::spawn(async move { service.serve(&peer, asked).await }).await.ok()
            };
            match answered {
                Some(answer) => return answer,
                None => Status::internal("the server failed at this request"),
            }
        }
        Ok(Err(Unread::TooLarge)) => Status::request_entity_too_large(format!("limit is {BODY_MAX}")),
        Ok(Err(Unread::Broken(message))) => Status::bad_request(message),
        Err(_) => Status::timeout("request did not complete within the allowed time", 0),
    };
    Ok(Answer::rejection(refusal.into(), Wanted::JSON).into_response())
}

/// Bodies that a caller holds in memory anyway are limited in the same way.
pub(crate) fn is_too_large(body: &Bytes) -> bool {
    body.len() > BODY_MAX
}
