//! The HTTP server of the page, and its access checks.
//!
//! A request needs the token of the URL: in the header `Authorization`, or in the query of the
//! event stream, because browsers send no headers with it. The files of the page contain no secrets
//! and need none. A request for another host is refused, so that a foreign name that resolves to
//! this address reaches nothing. A write from the page of another origin is refused.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use kubewright_client::Client;
use kubewright_client::discovery::RestMapper;
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actions::Action;
use crate::assets;
use crate::object_view::{ObjectRequest, ObjectView};
use crate::observed::Observed;
use crate::pipeline::Pipeline;
use crate::query::Query;
use crate::recorded::{RecordedProgram, TimeLine};
use crate::refusal::Refusal;

/// Time between two snapshots.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);
/// Number of keys of each kind in a snapshot.
const KEYS: usize = 12;
/// Number of keys of each kind in the detail of a controller.
const DETAIL_KEYS: usize = 200;
/// Maximum size of a request body: what a server takes as an object.
const BODY_MAX: usize = 3 << 20;
/// Time limit for the head and the body of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may take to close.
const GRACE: Duration = Duration::from_secs(1);
/// The page uses its own files only, and is shown in no frame.
const CONTENT_POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Answers the requests of the page.
pub(crate) struct DashboardService {
    shown: ShownProgram,
    address: SocketAddr,
    token: String,
}

/// The program of the page.
pub(crate) enum ShownProgram {
    /// A program that runs.
    Live(LiveProgram),
    /// A recording.
    Recorded(RecordedProgram),
}

/// A running program.
pub(crate) struct LiveProgram {
    pub(crate) client: Client,
    pub(crate) mapper: RestMapper,
    pub(crate) observed: Observed,
    allows_actions: bool,
}

impl LiveProgram {
    pub(crate) fn new(client: Client, observed: Observed, allows_actions: bool) -> Self {
        let mapper = client.rest_mapper();
        LiveProgram { client, mapper, observed, allows_actions }
    }
}

/// A token that nobody can guess, in hexadecimal digits.
pub(crate) fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Serves until `stop` is cancelled.
pub(crate) async fn serve(listener: TcpListener, service: Arc<DashboardService>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Probably out of file descriptors, which is temporary.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (service, stop) = (service.clone(), stop.clone());
        connections.spawn(async move {
            let closing = stop.clone();
            let answer = service_fn(move |request| {
                let (service, stop) = (service.clone(), stop.clone());
                async move { Ok::<_, Infallible>(service.answer(request, stop).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
            if closing.run_until_cancelled(connection.as_mut()).await.is_none() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(GRACE, connection).await;
            }
        });
    }
    connections.close();
    let _ = timeout(GRACE, connections.wait()).await;
}

impl DashboardService {
    pub(crate) fn new(shown: ShownProgram, address: SocketAddr, token: String) -> Self {
        DashboardService { shown, address, token }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, stop: CancellationToken) -> Response<ResponseBody> {
        let answer = self.route(request, stop).await;
        let mut response = answer.unwrap_or_else(|Refusal { code, message }| {
            let mut response = whole("text/plain; charset=utf-8", message);
            *response.status_mut() = code;
            response
        });
        for (name, value) in [
            ("content-security-policy", CONTENT_POLICY),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn route(
        self: Arc<Self>,
        request: Request<Incoming>,
        stop: CancellationToken,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let (parts, body) = request.into_parts();
        self.check_host(&parts.headers)?;
        let path = parts.uri.path();
        if let Some(asset) = assets::at(path) {
            return match parts.method {
                Method::GET | Method::HEAD => Ok(whole(asset.content_type, asset.content)),
                _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the page can only be read")),
            };
        }
        self.check_token(&parts.headers, &parts.uri)?;
        let query = Query(parts.uri.query().unwrap_or_default());
        let live = match &self.shown {
            ShownProgram::Live(live) => live,
            ShownProgram::Recorded(_) if parts.method != Method::GET => {
                return Err(Refusal::new(StatusCode::FORBIDDEN, "a recording has no actions"));
            }
            ShownProgram::Recorded(recorded) if path == "/api/settings" => {
                let settings = Settings { allows_actions: false, recording: Some(recorded.time_line()) };
                return Ok(json(&settings));
            }
            ShownProgram::Recorded(recorded) => return Ok(json(&recorded.answer(path, &query)?)),
        };
        match (&parts.method, path) {
            (&Method::GET, "/api/stream") => Ok(self.stream(stop)),
            (&Method::GET, "/api/pipeline") => Ok(json(&Pipeline::peek(&live.observed, KEYS))),
            (&Method::GET, "/api/settings") => {
                Ok(json(&Settings { allows_actions: live.allows_actions, recording: None }))
            }
            (&Method::GET, "/api/controller") => {
                let name = query.required("name")?;
                let lane = Pipeline::peek(&live.observed, DETAIL_KEYS).into_controller(&name);
                let lane = lane
                    .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("there is no controller {name:?}")))?;
                let recent = live.observed.sender().of_controller(&name);
                Ok(json(&ControllerDetail { lane, recent }))
            }
            (&Method::GET, "/api/object") => {
                let wanted = ObjectRequest { resource: query.required("resource")?, key: query.required("key")? };
                Ok(json(&ObjectView::read(live, &wanted).await?))
            }
            (&Method::POST, path) if path.starts_with("/api/actions/") => {
                self.check_origin(&parts.headers)?;
                if !live.allows_actions {
                    let why = "actions are off: they are for embedded servers that hold nothing but tests";
                    return Err(Refusal::new(StatusCode::FORBIDDEN, why));
                }
                let body = read(body).await?;
                let action = Action::parse(&path["/api/actions/".len()..], &body)?;
                Ok(json(&action.perform(live).await?))
            }
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no page {path}"))),
        }
    }

    /// Requires this address as host, under any name of the loopback interface.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.is_own(host) {
            return Ok(());
        }
        let why = format!("this page is served as {}, and not as {host:?}", self.address);
        Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, why))
    }

    /// Requires the page itself as origin, if the browser names one.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if host.is_some_and(|host| self.is_own(host)) {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::FORBIDDEN, "requests of other pages are refused"))
    }

    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<hyper::http::uri::Authority>() else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_loopback && authority.port_u16() == Some(self.address.port())
    }

    fn check_token(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let query = Query(uri.query().unwrap_or_default()).get("token");
        let token = header.map(str::to_owned).or(query).unwrap_or_default();
        if is_equal(token.as_bytes(), self.token.as_bytes()) {
            return Ok(());
        }
        let why = "the token is missing or wrong: open the whole URL that the program printed";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
    }

    /// Snapshots as server-sent events.
    fn stream(self: Arc<Self>, stop: CancellationToken) -> Response<ResponseBody> {
        let frames = stream::unfold((self, stop, true), |(service, stop, is_first)| async move {
            if !is_first {
                stop.run_until_cancelled(sleep(SNAPSHOT_INTERVAL)).await?;
            }
            // A recording has no stream.
            let ShownProgram::Live(live) = &service.shown else { return None };
            let snapshot = serde_json::to_string(&Pipeline::take(&live.observed, KEYS)).unwrap_or_default();
            let frame = Frame::data(Bytes::from(format!("data: {snapshot}\n\n")));
            Some((Ok::<_, Infallible>(frame), (service, stop, false)))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }
}

/// The permissions of the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    allows_actions: bool,
    /// The time line of a recording; `null` for a running program.
    recording: Option<TimeLine>,
}

/// A controller with its latest reconciles.
#[derive(Serialize)]
struct ControllerDetail {
    #[serde(flatten)]
    lane: crate::pipeline::ControllerLane,
    recent: Vec<crate::observed::ObservedReconcile>,
}

/// Compares in a time that does not depend on the first difference.
fn is_equal(one: &[u8], two: &[u8]) -> bool {
    one.len() == two.len() && one.iter().zip(two).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let read = timeout(REQUEST_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await;
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request did not end in time");
    let body = read.map_err(late)?;
    let too_long = |error| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request cannot be read: {error}"));
    Ok(body.map_err(too_long)?.to_bytes())
}

fn whole(content_type: &'static str, content: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(content.into()).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(value: &impl Serialize) -> Response<ResponseBody> {
    whole("application/json", serde_json::to_vec(value).unwrap_or_default())
}
