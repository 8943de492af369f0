//! Processes a request: authentication, limits, authorization, body, handler, response.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::QueryParameters;
use kubewright_net::transport::Transport;
use tokio::time::{Instant, timeout};

use crate::aggregation::{self, Aggregation};
use crate::audit::{self, AUDIT_ID, RequestAudit};
use crate::call::Call;
use crate::faults::{self, FaultEffect, Faults};
use crate::feature_gates::FeatureGate;
use crate::http::IncomingRequest;
use crate::http::{
    ApiResponse, BufferedBody, InFlight, InFlightPermit, MemoryBudget, RESPONSE_BYTES, RequestBody, ResponseBody,
    accepts_gzip, compress, too_many_bytes,
};
use crate::metrics::ServerMetrics;
use crate::non_resource;
use crate::offload::Offload;
use crate::registry::{self, Registry};
use crate::request::{RequestInfo, RequestSelectors};
use crate::request_cost;
use crate::routes;
use crate::warnings::Warnings;
use kubewright_audit::Auditor;
use kubewright_auth::User;
use kubewright_auth::authentication::{self, Authenticator, Peer};
use kubewright_auth::authorization;
use kubewright_objects::encoding::Wanted;
use kubewright_objects::rejection::{Rejection, retry_with_answers};
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_storage::Disk;

/// Time limit of a request that is not a watch. kube-apiserver: `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of heavy requests that run at a time.
const OFFLOADED_REQUESTS: usize = 64;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) peer: Peer,
    /// `None` in memory.
    pub(crate) address: Option<IpAddr>,
}

/// State of a request until its response is sent.
#[derive(Default)]
struct RequestProgress {
    place: InFlightPermit,
    audit: RequestAudit,
}

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The API server as a function from requests to responses, without a connection.
///
/// Clones refer to the same server.
#[derive(Clone)]
pub struct Service {
    shared: Arc<SharedService>,
}

struct SharedService {
    registry: Arc<Registry>,
    authenticator: Authenticator,
    in_flight: InFlight,
    /// The memory budget of request bodies.
    body_memory: MemoryBudget,
    /// The memory budget of large responses.
    response_memory: MemoryBudget,
    /// Runs requests that are expensive to decode, validate or encode.
    offload: Offload,
    metrics: ServerMetrics,
    disk: Option<Arc<Disk>>,
    /// The aggregated API servers.
    aggregation: Arc<Aggregation>,
    faults: Faults,
    /// Whether the fault injection endpoint is enabled.
    serves_faults: bool,
    auditor: Option<Arc<Auditor>>,
}

impl Service {
    pub(crate) fn new(
        registry: Arc<Registry>,
        authenticator: Authenticator,
        (in_flight, body_memory): (InFlight, MemoryBudget),
        disk: Option<Arc<Disk>>,
        faults: Faults,
        serves_faults: bool,
        auditor: Option<Arc<Auditor>>,
    ) -> Self {
        let metrics = ServerMetrics::default();
        let response_memory = MemoryBudget::new(RESPONSE_BYTES);
        let shared = SharedService {
            registry,
            authenticator,
            in_flight,
            body_memory,
            response_memory,
            offload: Offload::new(OFFLOADED_REQUESTS),
            metrics,
            disk,
            aggregation: Arc::default(),
            faults,
            serves_faults,
            auditor,
        };
        Service { shared: Arc::new(shared) }
    }

    /// Handles a request with administrator rights, unless it has a token.
    ///
    /// The body of a watch ends at its timeout, or when the server stops.
    ///
    /// # Errors
    ///
    /// Only if an injected [`Fault`](crate::Fault) drops the request.
    pub async fn call(&self, request: Request<Bytes>) -> io::Result<Response<ResponseBody>> {
        self.trusted(request).await
    }

    /// Boxed so that the server's future is compiled in this crate only.
    fn trusted(&self, request: Request<Bytes>) -> BoxFuture<'_, io::Result<Response<ResponseBody>>> {
        let (parts, body) = request.into_parts();
        let remote = Remote { peer: Peer::Trusted, address: None };
        Box::pin(async move { self.serve(&remote, IncomingRequest::new(parts, RequestBody::Whole(body))).await })
    }

    /// Connections to kubelets and pods.
    pub(crate) fn connect_network(&self, network: Arc<dyn Transport>) {
        self.shared.registry.set_network(network);
    }

    /// Connections to webhooks.
    pub(crate) fn webhook_clients(&self) -> &WebhookClients {
        &self.shared.registry.webhook_clients
    }

    /// The aggregated API servers.
    pub(crate) fn aggregation(&self) -> &Arc<Aggregation> {
        &self.shared.aggregation
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(crate) async fn serve(&self, remote: &Remote, asked: IncomingRequest) -> io::Result<Response<ResponseBody>> {
        let IncomingRequest { mut parts, query, info, mut body } = asked;
        // HTTP/2 has the host in the URI. Handlers look for it in the headers.
        if let Some(authority) = parts.uri.authority()
            && !parts.headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            parts.headers.insert(HOST, host);
        }
        let is_about_faults = self.shared.serves_faults && info.path.starts_with(faults::PATH);
        let mut active_faults = self.shared.faults.active_faults();
        let mut cut = None;
        if !is_about_faults {
            // Fails only if the server is gone.
            let _ = active_faults.wait_for(|active_faults| !active_faults.is_frozen).await;
            match self.shared.faults.next_effect(&info) {
                None => {}
                Some(FaultEffect::Delay(time)) => tokio::time::sleep(time).await,
                Some(FaultEffect::Cut(bytes)) => cut = Some(bytes),
                Some(FaultEffect::Drop) => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, "a fault was injected"));
                }
                Some(FaultEffect::Answer { code, retry_after }) => {
                    body.discard(&parts.headers).await;
                    let status = faults::status(code, retry_after, &info);
                    return Ok(ApiResponse::rejection(status.into(), Wanted::of_errors(&parts.headers, &query))
                        .into_response());
                }
            }
        }
        let (id, start) = (audit::request_id(&parts.headers), Instant::now());
        let audit = RequestAudit::new(self.shared.auditor.as_ref(), &id, &parts, remote.address);
        let mut progress = RequestProgress { audit, ..RequestProgress::default() };
        let answer = self.answer_in_time(&remote.peer, &parts, (&info, &query), &mut body, &mut progress).await;
        // An error response may be sent after the deadline.
        let deadline = (answer.is_ok() && !info.is_long_running()).then(|| start + REQUEST_TIMEOUT);
        let wanted = || Wanted::of_errors(&parts.headers, &query);
        let mut response =
            answer.unwrap_or_else(|rejection| ApiResponse::rejection(rejection, wanted())).into_response();
        response.headers_mut().insert(AUDIT_ID, id);
        self.shared.metrics.count(info.verb, response.status().as_u16());
        let RequestProgress { place, mut audit } = progress;
        audit.responded(response.status().as_u16(), response.headers().get(CONTENT_TYPE), response.body().whole());
        if response.body().is_watch()
            && let Some(trail) = audit.trail()
        {
            trail.response_started();
        }
        let compresses = self.shared.registry.features.contains(FeatureGate::APIResponseCompression);
        let response = compress(&parts.method, compresses && accepts_gzip(&parts.headers), response);
        Ok(response.map(|body| {
            let body = body.with_faults(active_faults).in_place(place).audited(audit.into_trail()).until(deadline);
            if let Some(bytes) = cut { body.cut_after(bytes) } else { body }
        }))
    }

    /// Handles a request that may write. Returns once everything in the response is durable.
    async fn durable<T>(&self, request: impl Future<Output = Result<T, Rejection>>) -> Result<T, Rejection> {
        let Some(disk) = &self.shared.disk else { return request.await };
        let failures = disk.failures();
        let (answer, writes) = registry::track_writes(request).await;
        // A response without writes may show a write of another request, for example a conflict.
        let newest = self.shared.registry.store.newest_revision();
        let (first, last) = writes.unwrap_or((newest, newest));
        let written = disk.wait(first, last).await;
        if writes.is_none() && disk.failures() != failures {
            return Err(Status::internal("objects could not be written, and writes were undone").into());
        }
        written.map_err(|error| Status::internal(error.to_string()))?;
        answer
    }

    /// Waits until the definitions in the catalog are durable.
    async fn wait_for_catalog(&self) {
        let Some(disk) = &self.shared.disk else { return };
        let revision = self.shared.registry.catalog_revision();
        if revision > self.shared.registry.store.current_revision() {
            // If they were undone, the catalog no longer contains them.
            let _ = disk.wait(revision, revision).await;
        }
    }

    /// Handles a request. Returns 504 after its deadline.
    async fn answer_in_time(
        &self,
        peer: &Peer,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: &mut RequestBody,
        progress: &mut RequestProgress,
    ) -> Result<ApiResponse, Rejection> {
        let time = match request_timeout(info, query) {
            Ok(time) => time,
            Err(rejection) => return body.reject(&parts.headers, rejection).await,
        };
        let answer = pin!(self.check_and_answer(peer, parts, (info, query), body, progress));
        match time {
            Some(time) => timeout(time, answer).await.unwrap_or_else(|_| Err(timed_out())),
            None => answer.await,
        }
    }

    /// Checks the request before its body is read, then handles it.
    async fn check_and_answer(
        &self,
        peer: &Peer,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: &mut RequestBody,
        progress: &mut RequestProgress,
    ) -> Result<ApiResponse, Rejection> {
        let user = match self.admit(peer, &parts.headers, (info, query), progress).await {
            Ok(user) => user,
            Err(rejection) => return body.reject(&parts.headers, rejection).await,
        };
        let is_read = is_read(&parts.method);
        if !is_read && self.shared.response_memory.is_exhausted() {
            return body.reject(&parts.headers, too_many_bytes()).await;
        }
        let body = if is_read {
            body.discard(&parts.headers).await;
            BufferedBody::default()
        } else {
            // For requests without a deadline, limit the time for the body.
            let read = timeout(REQUEST_TIMEOUT, body.read(&self.shared.body_memory)).await;
            let body = read.unwrap_or_else(|_| Err(timed_out()))?;
            progress.audit.request_body(info, &parts.headers, &body.bytes);
            body
        };
        if is_read {
            self.wait_for_catalog().await;
        }
        if let Some(database) = &self.shared.registry.database {
            if !is_read || info.reads_newest(query) {
                database.barrier().await?;
            }
            if !is_read {
                return self.answer_writing(user, parts, (info, query), body).await;
            }
        }
        if request_cost::is_heavy(&self.shared.registry, info, body.bytes.len()) {
            self.answer_offloaded(user, parts, (info, query), body).await
        } else {
            self.answer_durably(&user, parts, (info, query), &body.bytes).await
        }
    }

    async fn answer_durably(
        &self,
        user: &User,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: &Bytes,
    ) -> Result<ApiResponse, Rejection> {
        let answer = self.answer(user, parts, (info, query), body);
        if is_read(&parts.method) { answer.await } else { self.durable(answer).await }
    }

    /// Like [`answer_durably`](Self::answer_durably), on blocking threads.
    async fn answer_offloaded(
        &self,
        user: User,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: BufferedBody,
    ) -> Result<ApiResponse, Rejection> {
        let (service, parts, info, query) = (self.clone(), parts.clone(), info.clone(), query.clone());
        let answer = async move { service.answer_durably(&user, &parts, (&info, &query), &body.bytes).await };
        self.shared.offload.drive(answer).await?
    }

    /// Like [`answer_durably`](Self::answer_durably), on threads that may wait for the database.
    async fn answer_writing(
        &self,
        user: User,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: BufferedBody,
    ) -> Result<ApiResponse, Rejection> {
        let (service, parts, info, query) = (self.clone(), parts.clone(), info.clone(), query.clone());
        let answer = async move { service.answer_durably(&user, &parts, (&info, &query), &body.bytes).await };
        self.shared.registry.run_writes(answer).await?
    }

    /// Authenticates and authorizes the caller, and applies limits. The checks have the order of
    /// kube-apiserver.
    async fn admit(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        (info, query): (&RequestInfo, &QueryParameters),
        progress: &mut RequestProgress,
    ) -> Result<User, Rejection> {
        let SharedService { registry, authenticator, in_flight, .. } = &*self.shared;
        let user = authentication::authenticate(&**registry, peer, headers, authenticator)?;
        let selectors = RequestSelectors::new(info, query);
        let action = info.action(&selectors);
        progress.audit.authenticated(&user, info, &selectors);
        let caller = user.name.clone();
        let user =
            retry_with_answers(|| authentication::impersonate(&**registry, user.clone(), headers, action)).await?;
        if user.name != caller
            && let Some(trail) = progress.audit.trail()
        {
            trail.impersonated(&user);
        }
        progress.place = in_flight
            .enter(info.verb, &user)
            .ok_or_else(|| Status::too_many_requests("Too many requests, please try again later.", 1))?;
        let decision = retry_with_answers(|| authorization::decide(&**registry, &user, action)).await?;
        if let Some(trail) = progress.audit.trail() {
            trail.authorized(decision.is_allowed, &decision.reason);
        }
        decision.check(&user, action)?;
        Ok(user)
    }

    async fn answer(
        &self,
        user: &User,
        parts: &Parts,
        (info, query): (&RequestInfo, &QueryParameters),
        body: &Bytes,
    ) -> Result<ApiResponse, Rejection> {
        let SharedService { registry, metrics, authenticator, .. } = &*self.shared;
        let Parts { method, headers, .. } = parts;
        let mut call = Call {
            registry,
            metrics,
            authenticator,
            user,
            info,
            method,
            url: &parts.uri,
            query,
            headers,
            body,
            disk: self.shared.disk.as_deref(),
            tunnel: parts.extensions.get(),
            warnings: Warnings::default(),
        };
        if let Some(answer) = aggregation::answer(&self.shared.aggregation, &call).await {
            return Ok(answer);
        }
        let answer = match &info.target {
            Some(target) => match routes::answer(&mut call, target).await {
                // Error responses have warnings as well.
                Err(rejection) if !call.warnings.is_empty() => {
                    ApiResponse::rejection(rejection, Wanted::of_errors(headers, query))
                }
                answer => answer?,
            },
            None if self.shared.serves_faults && info.path.starts_with(faults::PATH) => {
                let action: Vec<&str> =
                    info.path[faults::PATH.len()..].split('/').filter(|part| !part.is_empty()).collect();
                non_resource::inject_faults(&self.shared.faults, method, &action, body)?
            }
            None => non_resource::answer(&call)?,
        };
        let answer = answer.with_warnings(&call.warnings);
        if is_read(method) {
            answer.within(&self.shared.response_memory)
        } else {
            Ok(answer.holding_rest(&self.shared.response_memory))
        }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The time limit of a request: the parameter `timeout`, up to [`REQUEST_TIMEOUT`]. `None` for
/// long-running requests. kube-apiserver: `WithRequestDeadline`.
fn request_timeout(info: &RequestInfo, query: &QueryParameters) -> Result<Option<Duration>, Rejection> {
    if info.is_long_running() {
        return Ok(None);
    }
    let Some(text) = query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(Some(REQUEST_TIMEOUT)) };
    let timeout = text.parse::<kubewright_core::Duration>();
    let timeout = timeout
        .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    // Zero and negative values mean the default.
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
