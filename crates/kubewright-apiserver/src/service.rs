//! The way of a request: who asks, whether they may, what they want, and the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use kubewright_core::Duration;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::Query;

use crate::authentication::{self, Authenticator, Peer, User};
use crate::authorization::{self, Action};
use crate::encoding::Wanted;
use crate::faults::{self, Effect, Faults};
use crate::http::{Answer, Body, Crowd, Warnings, accepts_gzip, compress, is_too_large};
use crate::metrics::Metrics;
use crate::pages;
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::request::{Asked, RequestInfo, selected_name};
use crate::routes;
use crate::storage::Disk;

/// A future of which nothing is known but what comes of it.
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
    crowd: Crowd,
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
        crowd: Crowd,
        disk: Option<Arc<Disk>>,
        faults: Faults,
        serves_faults: bool,
    ) -> Self {
        let metrics = Metrics::default();
        Service { shared: Arc::new(Shared { registry, authenticator, crowd, metrics, disk, faults, serves_faults }) }
    }

    /// Answers a request of somebody who is trusted, unless a token says who it is.
    ///
    /// The body of a watch goes on until its time-out, or until the server stops.
    ///
    /// # Errors
    /// Only where a [`Fault`](crate::Fault) was injected that drops the request.
    pub async fn call(&self, request: Request<Bytes>) -> io::Result<Response<Body>> {
        if is_too_large(request.body()) {
            let status = Status::request_entity_too_large("limit is 3145728");
            return Ok(Answer::rejection(status.into(), Wanted::JSON).into_response());
        }
        self.trusted(request).await
    }

    /// Boxed here, so that who calls it does not compile the server once more.
    fn trusted(&self, request: Request<Bytes>) -> BoxFuture<'_, io::Result<Response<Body>>> {
        Box::pin(async move { self.serve(&Peer::Trusted, Asked::new(request)).await })
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(crate) async fn serve(&self, peer: &Peer, asked: Asked) -> io::Result<Response<Body>> {
        let Asked { mut parts, query, info, body } = asked;
        // HTTP/2 has the host in the URI. What reads it looks in one place.
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
                    let status = faults::status(code, retry_after, &info);
                    return Ok(
                        Answer::rejection(status.into(), Wanted::of_errors(&parts.headers, &query)).into_response()
                    );
                }
            }
        }
        let Some(_place) = self.shared.crowd.enter(info.verb) else {
            let status = Status::too_many_requests("Too many requests, please try again later.", 1);
            return Ok(Answer::rejection(status.into(), Wanted::of_errors(&parts.headers, &query)).into_response());
        };
        let mut answer = self.answer(peer, &parts.method, &info, &query, &parts.headers, &body).await;
        if answer.is_ok() && !matches!(parts.method, Method::GET | Method::HEAD) {
            answer = self.settle().await.and(answer);
        }
        let wanted = || Wanted::of_errors(&parts.headers, &query);
        let response = answer.unwrap_or_else(|rejection| Answer::rejection(rejection, wanted())).into_response();
        self.shared.metrics.count(info.verb, response.status().as_u16());
        let response = compress(&parts.method, accepts_gzip(&parts.headers), response);
        Ok(response.map(|body| match cut {
            Some(bytes) => body.under(weather).cut_after(bytes),
            None => body.under(weather),
        }))
    }

    /// Waits until all writes so far are where the next server finds them.
    async fn settle(&self) -> Result<(), Rejection> {
        let Some(disk) = &self.shared.disk else { return Ok(()) };
        let written = disk.wait(self.shared.registry.store.current_revision()).await;
        written.map_err(|error| Status::internal(error.to_string()).into())
    }

    async fn answer(
        &self,
        peer: &Peer,
        method: &Method,
        info: &RequestInfo,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Answer, Rejection> {
        let Shared { registry, metrics, authenticator, .. } = &*self.shared;
        let user = authentication::authenticate(registry, peer, headers, authenticator)?;
        let user = authentication::impersonate(registry, user, headers)?;
        check_timeout(info, query)?;
        let selected = selected_name(query).unwrap_or_default();
        authorization::authorize(registry, &user, Action::of_request(info, &selected))?;
        let mut call = Call {
            registry,
            metrics,
            authenticator,
            user: &user,
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
                // Whoever is refused is warned as well.
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
        Ok(answer.with_warnings(&call.warnings))
    }
}

/// How long an answer may take has to be a duration, although it never takes long here.
fn check_timeout(info: &RequestInfo, query: &Query) -> Result<(), Rejection> {
    let timeout = query.get("timeout").filter(|timeout| !timeout.is_empty() && info.verb != "watch");
    match timeout.map(str::parse::<Duration>) {
        Some(Err(error)) => {
            Err(Status::bad_request(format!("invalid timeout specified in the request URL - {error}")).into())
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("store", &self.shared.registry.store).finish_non_exhaustive()
    }
}
