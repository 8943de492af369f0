//! Connections, each served by a task that somebody owns.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use kubewright_core::meta::v1::Status;
use kubewright_http2::drive;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::work::{Owned, Pending, Requests};
use super::{Answer, Body};
use crate::authentication::Peer;
use crate::encoding::Wanted;
use crate::request::Asked;
use crate::service::Service;

/// The largest body that is taken.
const BODY_MAX: usize = 3 << 20;
/// How many headers a request may have, and how large they may be.
const HEADERS_MAX: usize = 256;
const HEADER_SIZE: usize = 1 << 20;
/// How long a client may take to send its headers, and then its body.
const HEADER_TIME: Duration = Duration::from_secs(30);
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
            let requests = Requests::default();
            let respond = service_fn(move |request| respond(service.clone(), peer.clone(), request, requests.add()));
            let (stream, streams, mut driver) = drive(stream);
            let mut builder = Builder::new(streams);
            builder.http1().timer(TokioTimer::new()).keep_alive(true).header_read_timeout(HEADER_TIME);
            builder.http1().max_headers(HEADERS_MAX).max_buf_size(HEADER_SIZE);
            builder.http2().timer(TokioTimer::new()).max_header_list_size(HEADER_SIZE as u32);
            let connection = builder.serve_connection(TokioIo::new(stream), respond);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // How a connection ended is for its client to know.
                () = poll_fn(|context| driver.poll_with(connection.as_mut(), context)) => return,
                _ = weather.wait_for(|weather| weather.restarts != restarts) => return,
                _ = stop.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
            }
            poll_fn(|context| driver.poll_with(connection.as_mut(), context)).await;
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

async fn respond(
    service: Service,
    peer: Peer,
    request: Request<Incoming>,
    pending: Pending,
) -> io::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let whole = Limited::new(body, BODY_MAX).collect();
    let Ok(body) = tokio::time::timeout(BODY_TIME, whole).await else {
        let status = Status::timeout("request did not complete within the allowed time", 0);
        return Ok(Answer::rejection(status.into(), Wanted::JSON).into_response());
    };
    match body {
        Ok(body) => {
            let is_http2 = parts.version == Version::HTTP_2;
            let asked = Asked::new(Request::from_parts(parts, body.to_bytes()));
            // The streams of a connection share its task. They do not share work that may take long, nor wait for each other's.
            if !is_http2 || pending.is_alone() && asked.is_about_one() {
                return service.serve(&peer, asked).await;
            }
            let work = Owned::spawn(async move { service.serve(&peer, asked).await });
            work.await.unwrap_or_else(|failed| Err(io::Error::other(failed)))
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let status = Status::request_entity_too_large(format!("limit is {BODY_MAX}"));
            Ok(Answer::rejection(status.into(), Wanted::JSON).into_response())
        }
        Err(error) => {
            Ok(Answer::rejection(Status::bad_request(error.to_string()).into(), Wanted::JSON).into_response())
        }
    }
}

/// Bodies that a caller holds in memory anyway are limited in the same way.
pub(crate) fn is_too_large(body: &Bytes) -> bool {
    body.len() > BODY_MAX
}
