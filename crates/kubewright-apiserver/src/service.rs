//! The steps of a request: authentication, limits, authorization, body, handler, response.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::Query;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::authentication::{self, Authenticator, Peer, User};
use crate::authorization::{self, Action};
use crate::encoding::Wanted;
use crate::faults::{self, Effect, Faults};
use crate::http::{
    Answer, Body, BufferedBody, InFlight, LIST_BYTES, MemoryBudget, Place, RequestBody, Warnings, accepts_gzip,
    compress,
};
use crate::metrics::Metrics;
use crate::offload::Offload;
use crate::pages;
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::request::{Asked, RequestInfo, selected_name};
use crate::routes;
use crate::storage::Disk;

/// The longest time for a request that is not a watch. kube-apiserver: `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Requests with larger bodies are served on a blocking thread. So are patches of larger objects.
const OFFLOADED_BODY: usize = 128 << 10;
/// The number of those at the same time.
const OFFLOADED_REQUESTS: usize = 64;

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The API server as a function from requests to answers, without any connection.
///
/// A handle: clones are the same server.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Registry>,
    authenticator: Authenticator,
    in_flight: InFlight,
    /// For the bodies of requests.
    body_memory: MemoryBudget,
    /// For lists that are encoded whole.
    list_memory: MemoryBudget,
    /// For requests with much to decode, validate or encode.
    offload: Offload,
    metrics: Metrics,
    disk: Option<Arc<Disk>>,
    faults: Faults,
    /// Whether faults can be injected by requests.
    serves_faults: bool,
}

/// All that is known of a request.
pub(crate) struct Call<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) metrics: &'a Metrics,
    pub(crate) authenticator: &'a Authenticator,
    pub(crate) user: &'a User,
    pub(crate) info: &'a RequestInfo,
    pub(crate) method: &'a Method,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// Why objects cannot be kept at the moment, if they cannot.
    pub(crate) disk_failure: Option<Arc<str>>,
    /// What the client should know besides the answer.
    pub(crate) warnings: Warnings,
}

impl Service {
    pub(crate) fn new(
        registry: Arc<Registry>,
        authenticator: Authenticator,
        (in_flight, body_memory): (InFlight, MemoryBudget),
        disk: Option<Arc<Disk>>,
        faults: Faults,
        serves_faults: bool,
    ) -> Self {
        let metrics = Metrics::default();
        let list_memory = MemoryBudget::new(LIST_BYTES);
        let shared = Shared {
            registry,
            authenticator,
            in_flight,
            body_memory,
            list_memory,
            offload: Offload::new(OFFLOADED_REQUESTS),
            metrics,
            disk,
            faults,
            serves_faults,
        };
        Service { shared: Arc::new(shared) }
    }

    /// Answers a request of somebody who is trusted, unless a token says who it is.
    ///
    /// The body of a watch goes on until its time-out, or until the server stops.
    ///
    /// # Errors
    /// Only where a [`Fault`](crate::Fault) was injected that drops the request.
    pub async fn call(&self, request: Request<Bytes>) -> io::Result<Response<Body>> {
        self.trusted(request).await
    }

    /// Boxed here, so that the caller's crate does not compile the server once more.
    fn trusted(&self, request: Request<Bytes>) -> BoxFuture<'_, io::Result<Response<Body>>> {
        let (parts, body) = request.into_parts();
        Box::pin(async move { self.serve(&Peer::Trusted, Asked::new(parts, RequestBody::Whole(body))).await })
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(crate) async fn serve(&self, peer: &Peer, asked: Asked) -> io::Result<Response<Body>> {
        let Asked { mut parts, query, info, mut body } = asked;
        // HTTP/2 has the host in the URI. Handlers look for it in the headers.
        if let Some(authority) = parts.uri.authority()
            && !parts.headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            parts.headers.insert(HOST, host);
        }
        let is_about_faults = self.shared.serves_faults && info.path.starts_with(faults::PATH);
        let mut weather = self.shared.faults.weather();
        let mut cut = None;
        if !is_about_faults {
            // Fails only if the server is gone.
            let _ = weather.wait_for(|weather| !weather.is_frozen).await;
            match self.shared.faults.strike(&info) {
                None => {}
                Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
                Some(Effect::Cut(bytes)) => cut = Some(bytes),
                Some(Effect::Drop) => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, "a fault was injected"));
                }
                Some(Effect::Answer { code, retry_after }) => {
                    body.discard(&parts.headers).await;
                    let status = faults::status(code, retry_after, &info);
                    return Ok(
                        Answer::rejection(status.into(), Wanted::of_errors(&parts.headers, &query)).into_response()
                    );
                }
            }
        }
        let (mut place, start) = (Place::default(), Instant::now());
        let answer = self.answer_in_time(peer, &parts, (&info, &query), &mut body, &mut place).await;
        // A refusal at the deadline is sent nevertheless.
        let deadline = answer.is_ok().then(|| start + REQUEST_TIMEOUT);
        let wanted = || Wanted::of_errors(&parts.headers, &query);
        let response = answer.unwrap_or_else(|rejection| Answer::rejection(rejection, wanted())).into_response();
        self.shared.metrics.count(info.verb, response.status().as_u16());
        let response = compress(&parts.method, accepts_gzip(&parts.headers), response);
        Ok(response.map(|body| {
            let body = body.under(weather).in_place(place).until(deadline);
            if let Some(bytes) = cut { body.cut_after(bytes) } else { body }
        }))
    }

    /// Waits until all writes so far are on disk.
    async fn settle(&self) -> Result<(), Rejection> {
        let Some(disk) = &self.shared.disk else { return Ok(()) };
        let written = disk.wait(self.shared.registry.store.current_revision()).await;
        written.map_err(|error| Status::internal(error.to_string()).into())
    }

    /// Answers a request before its deadline, or with 504.
    async fn answer_in_time(
        &self,
        peer: &Peer,
        parts: &Parts,
        (info, query): (&RequestInfo, &Query),
        body: &mut RequestBody,
        place: &mut Place,
    ) -> Result<Answer, Rejection> {
        let time = match request_timeout(info, query) {
            Ok(time) => time,
            Err(rejection) => {
                body.discard(&parts.headers).await;
                return Err(rejection);
            }
        };
        let answer = pin!(self.check_and_answer(peer, parts, (info, query), body, place));
        match time {
            Some(time) => timeout(time, answer).await.unwrap_or_else(|_| Err(timed_out())),
            None => answer.await,
        }
    }

    /// Reads the body only if the caller has the right to send one.
    async fn check_and_answer(
        &self,
        peer: &Peer,
        parts: &Parts,
        (info, query): (&RequestInfo, &Query),
        body: &mut RequestBody,
        place: &mut Place,
    ) -> Result<Answer, Rejection> {
        let user = match self.admit(peer, &parts.headers, (info, query), place) {
            Ok(user) => user,
            Err(rejection) => {
                body.discard(&parts.headers).await;
                return Err(rejection);
            }
        };
        let body = if matches!(parts.method, Method::GET | Method::HEAD) {
            body.discard(&parts.headers).await;
            BufferedBody::default()
        } else {
            // Requests without a deadline have one for their body.
            let read = timeout(REQUEST_TIMEOUT, body.read(&self.shared.body_memory)).await;
            read.unwrap_or_else(|_| Err(timed_out()))?
        };
        let answer = if self.is_heavy(info, &body.bytes) {
            self.answer_offloaded(user, parts, (info, query), body).await?
        } else {
            self.answer(&user, parts, (info, query), &body.bytes).await?
        };
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            self.settle().await?;
        }
        Ok(answer)
    }

    /// Whether a request would keep a thread busy for many milliseconds. Lists see to themselves.
    fn is_heavy(&self, info: &RequestInfo, body: &Bytes) -> bool {
        if body.len() >= OFFLOADED_BODY || info.path.starts_with("/openapi") {
            return true;
        }
        let Some(target) = info.target.as_ref().filter(|_| info.verb == "patch") else { return false };
        let catalog = self.shared.registry.catalog();
        let resources = catalog.resources(&target.group, &target.version);
        let resource = resources.and_then(|resources| resources.get(&target.resource));
        let key = resource.map(|resource| resource.key(&target.namespace, &target.name));
        let stored = key.and_then(|key| self.shared.registry.store.get(&key));
        stored.is_some_and(|entry| entry.object.json().len() >= OFFLOADED_BODY)
    }

    /// As [`answer`](Self::answer), on a blocking thread.
    ///
    /// Webhooks may be called there. On a paused clock, one that does not answer has no time-out.
    async fn answer_offloaded(
        &self,
        user: User,
        parts: &Parts,
        (info, query): (&RequestInfo, &Query),
        body: BufferedBody,
    ) -> Result<Answer, Rejection> {
        let (service, parts, info, query) = (self.clone(), parts.clone(), info.clone(), query.clone());
        let runtime = Handle::current();
        let work = move || runtime.block_on(service.answer(&user, &parts, (&info, &query), &body.bytes));
        self.shared.offload.run(work).await?
    }

    /// The caller, if the request may be served. The checks have the order of kube-apiserver's.
    fn admit(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        (info, query): (&RequestInfo, &Query),
        place: &mut Place,
    ) -> Result<User, Rejection> {
        let Shared { registry, authenticator, in_flight, .. } = &*self.shared;
        let user = authentication::authenticate(registry, peer, headers, authenticator)?;
        let user = authentication::impersonate(registry, user, headers)?;
        *place = in_flight
            .enter(info.verb)
            .ok_or_else(|| Status::too_many_requests("Too many requests, please try again later.", 1))?;
        let selected = selected_name(query).unwrap_or_default();
        authorization::authorize(registry, &user, Action::of_request(info, &selected))?;
        Ok(user)
    }

    async fn answer(
        &self,
        user: &User,
        parts: &Parts,
        (info, query): (&RequestInfo, &Query),
        body: &Bytes,
    ) -> Result<Answer, Rejection> {
        let Shared { registry, metrics, authenticator, .. } = &*self.shared;
        let Parts { method, headers, .. } = parts;
        let mut call = Call {
            registry,
            metrics,
            authenticator,
            user,
            info,
            method,
            query,
            headers,
            body,
            disk_failure: self.shared.disk.as_ref().and_then(|disk| disk.failure()),
            warnings: Warnings::default(),
        };
        let answer = match &info.target {
            Some(target) => match routes::answer(&mut call, target).await {
                // A refusal has warnings as well.
                Err(rejection) if !call.warnings.is_empty() => {
                    Answer::rejection(rejection, Wanted::of_errors(headers, query))
                }
                answer => answer?,
            },
            None if self.shared.serves_faults && info.path.starts_with(faults::PATH) => {
                let action: Vec<&str> =
                    info.path[faults::PATH.len()..].split('/').filter(|part| !part.is_empty()).collect();
                faults::answer(&self.shared.faults, method, &action, body)?
            }
            None => pages::answer(&call)?,
        };
        answer.with_warnings(&call.warnings).within(&self.shared.list_memory)
    }
}

/// The time that a request may take: the parameter `timeout`, up to [`REQUEST_TIMEOUT`]. None for
/// requests that run long. kube-apiserver: `WithRequestDeadline`.
fn request_timeout(info: &RequestInfo, query: &Query) -> Result<Option<Duration>, Rejection> {
    if info.is_long_running() {
        return Ok(None);
    }
    let Some(text) = query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(Some(REQUEST_TIMEOUT)) };
    let timeout = text.parse::<kubewright_core::Duration>();
    let timeout = timeout
        .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    // Zero and negative values are no limit of the caller's.
    let timeout = Duration::try_from(timeout).ok().filter(|timeout| !timeout.is_zero());
    Ok(Some(timeout.unwrap_or(REQUEST_TIMEOUT).min(REQUEST_TIMEOUT)))
}

/// kube-apiserver: `WithTimeoutForNonLongRunningRequests`.
fn timed_out() -> Rejection {
    Status::timeout("request did not complete within the allotted timeout", 0).into()
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("store", &self.shared.registry.store).finish_non_exhaustive()
    }
}
