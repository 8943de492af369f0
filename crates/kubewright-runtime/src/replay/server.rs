//! The transport of a replay.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use kubewright_client::transport::{Body, ResponseFuture, Transport, TransportError, TransportErrorKind};
use kubewright_core::Value;
use kubewright_core::options::QueryParameters;
use kubewright_net::observation::{self, CacheChange, CacheScope, CacheWriter, ObservedWork, Observer, ReconcileStart};
use kubewright_recording::{self as recording, Cache, Entry};
use tokio::sync::{Notify, oneshot};

use super::served_cache::ServedCache;

/// Answers requests from a recording. Clones are the same server.
#[derive(Clone)]
pub(super) struct ReplayServer {
    shared: Arc<ServerShared>,
}

struct ServerShared {
    entries: Arc<Vec<Entry>>,
    state: Mutex<ServerContents>,
    /// Wakes the waiter for unknown caches.
    unknown: Notify,
}

#[derive(Default)]
struct ServerContents {
    caches: Vec<ServedCache>,
    pending: VecDeque<PendingRequest>,
    unknown_caches: Vec<String>,
}

/// A request that waits for its answer.
pub(super) struct PendingRequest {
    /// The number of its reconcile.
    pub(super) reconcile: Option<u64>,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Option<Value>,
    answer: oneshot::Sender<recording::Response>,
}

impl PendingRequest {
    pub(super) fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    pub(super) fn answer(self, response: recording::Response) {
        // A reconcile may have dropped its request.
        let _ = self.answer.send(response);
    }
}

impl ReplayServer {
    /// A server with the caches as they were when the first reconcile began.
    pub(super) fn new(entries: Arc<Vec<Entry>>) -> Self {
        // All caches are known from the start, since a replayed program creates them at once.
        let caches = entries.iter().filter_map(|entry| match entry {
            Entry::Cache(cache) => Some(ServedCache::new(cache.clone(), &entries)),
            _ => None,
        });
        let contents = ServerContents { caches: caches.collect(), ..ServerContents::default() };
        let first = first_reconcile(&entries);
        let shared = ServerShared { entries, state: Mutex::new(contents), unknown: Notify::new() };
        let server = ReplayServer { shared: Arc::new(shared) };
        if first > 0 {
            server.catch_up(first - 1);
        }
        server
    }

    /// Applies all recorded changes of caches up to a place.
    pub(super) fn catch_up(&self, place: usize) {
        let mut state = self.state();
        state.caches.iter_mut().for_each(|cache| cache.catch_up_to_place(&self.shared.entries, place));
    }

    /// Applies the recorded changes of a cache up to a generation.
    pub(super) fn catch_up_cache(&self, number: u64, generation: u64) {
        let mut state = self.state();
        if let Some(cache) = state.caches.iter_mut().find(|cache| cache.scope.cache == number) {
            cache.catch_up_to_generation(&self.shared.entries, generation);
        }
    }

    /// The object at a path, as a cache shows it now.
    pub(super) fn cached(&self, path: &str) -> Option<Value> {
        let (collection, name) = path.rsplit_once('/')?;
        let wanted = CacheRequest::parse(collection)?;
        let key = if wanted.namespace.is_empty() { name.to_owned() } else { format!("{}/{name}", wanted.namespace) };
        let state = self.state();
        let mut caches = state.caches.iter().filter(|cache| wanted.is_of(&cache.scope));
        caches.find_map(|cache| cache.get(&key).cloned())
    }

    /// Takes the first pending request that matches.
    pub(super) fn take(&self, matches: impl Fn(&PendingRequest) -> bool) -> Option<PendingRequest> {
        let mut state = self.state();
        let place = state.pending.iter().position(|pending| !pending.answer.is_closed() && matches(pending))?;
        state.pending.remove(place)
    }

    /// The name of the first cache that was asked for and not recorded.
    pub(super) async fn first_unknown_cache(&self) -> String {
        loop {
            let woken = self.shared.unknown.notified();
            if let Some(name) = self.state().unknown_caches.first() {
                return name.clone();
            }
            woken.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerContents> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list or the watch of a cache.
    fn serve_cache(&self, wanted: &CacheRequest, query: &str) -> Response<Body> {
        let parameters = QueryParameters::parse(query);
        let get = |name: &str| parameters.get(name).map(|value| value.to_string()).unwrap_or_default();
        let is_watch = matches!(get("watch").as_str(), "true" | "1");
        let (labels, fields) = (get("labelSelector"), get("fieldSelector"));
        let mut state = self.state();
        let namespaces = match wanted.namespace.as_str() {
            "" => Vec::new(),
            namespace => vec![namespace.to_owned()],
        };
        let Some(place) = state.find(wanted, &namespaces, &labels, &fields) else {
            state.unknown_caches.push(wanted.name());
            self.shared.unknown.notify_waiters();
            return status(StatusCode::NOT_FOUND, "the recording has no such cache");
        };
        let cache = &state.caches[place];
        if !is_watch {
            return json(StatusCode::OK, cache.list(&wanted.namespace));
        }
        let is_list = get("sendInitialEvents") == "true";
        let first = if is_list { cache.initial_events(&wanted.namespace) } else { Bytes::new() };
        let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
        with_type(StatusCode::OK, Body::new(first.chain(stream::pending())))
    }
}

impl ServerContents {
    /// The place of the recorded cache: one of the same scope, or else of the same resource.
    fn find(&self, wanted: &CacheRequest, namespaces: &[String], labels: &str, fields: &str) -> Option<usize> {
        let has_scope = |cache: &Cache| {
            let has_namespace = cache.namespaces.is_empty() && namespaces.is_empty()
                || namespaces.iter().any(|namespace| cache.namespaces.contains(namespace));
            cache.labels == labels && cache.fields == fields && has_namespace
        };
        let mut of_resource = (0..self.caches.len()).filter(|place| wanted.is_of(&self.caches[*place].scope));
        let exact = of_resource.clone().find(|place| has_scope(&self.caches[*place].scope));
        exact.or_else(|| of_resource.next())
    }
}

/// Connects the caches of the replayed program with the recorded ones.
impl Observer for ReplayServer {
    fn began(&self, _: ReconcileStart<'_>) -> Arc<dyn ObservedWork> {
        unreachable!("a replay starts reconciles without an observer")
    }

    fn cache_created(&self, scope: &CacheScope, writer: Box<dyn CacheWriter>) -> u64 {
        let resource = &scope.resource;
        let wanted = CacheRequest {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.resource.to_string(),
            namespace: String::new(),
        };
        let namespaces: Vec<String> = scope.namespaces.iter().map(ToString::to_string).collect();
        let mut state = self.state();
        match state.find(&wanted, &namespaces, &scope.labels, &scope.fields) {
            Some(place) => {
                state.caches[place].add_writer(writer);
                state.caches[place].scope.cache
            }
            // Its list fails, and so does the replay.
            None => 0,
        }
    }

    fn applied(&self, _: u64, _: u64, _: &str, _: &mut dyn Iterator<Item = CacheChange<'_>>) {}
}

/// The place of the first reconcile.
pub(super) fn first_reconcile(entries: &[Entry]) -> usize {
    entries.iter().position(|entry| matches!(entry, Entry::Began(_))).unwrap_or(entries.len())
}

impl Transport for ReplayServer {
    fn send(&self, request: http::Request<Bytes>) -> ResponseFuture {
        let reconcile = observation::current().map(|work| work.number());
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if reconcile.is_none()
            && request.method() == Method::GET
            && let Some(wanted) = CacheRequest::parse(path)
        {
            let response = self.serve_cache(&wanted, query);
            return Box::pin(async move { Ok(response) });
        }
        let (sender, receiver) = oneshot::channel();
        let body = request.body();
        let body = (!body.is_empty()).then(|| {
            Value::from_json(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).as_ref().into()))
        });
        self.state().pending.push_back(PendingRequest {
            reconcile,
            method: request.method().to_string(),
            path: request.uri().to_string(),
            body,
            answer: sender,
        });
        Box::pin(async move {
            let gone = |_| TransportError::new(TransportErrorKind::Disconnected, "the replay has ended");
            answered(receiver.await.map_err(gone)?)
        })
    }
}

/// A recorded response as the client sees it.
fn answered(recorded: recording::Response) -> Result<Response<Body>, TransportError> {
    let body: Bytes = match recorded.body {
        Some(recording::Body::Json(json)) => json.get().to_owned().into(),
        Some(recording::Body::Text(text)) => text.into(),
        Some(recording::Body::Omitted(_)) => {
            let problem = "the recording does not have this response";
            return Err(TransportError::new(TransportErrorKind::Unsupported, problem));
        }
        None => Bytes::new(),
    };
    let code = match (recorded.status, recorded.error) {
        (0, error) => {
            // Not one of the kinds that a client repeats: repetitions were recorded as requests.
            let error = error.unwrap_or_else(|| "no response".to_owned());
            return Err(TransportError::new(TransportErrorKind::Timeout, error));
        }
        (code, _) => StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    let mut response = json(code, body);
    let headers = response.headers_mut();
    if let Some(Ok(value)) = recorded.content_type.map(|value| value.parse()) {
        headers.insert(CONTENT_TYPE, value);
    }
    if let Some(Ok(value)) = recorded.retry_after.map(|value| value.parse()) {
        headers.insert(RETRY_AFTER, value);
    }
    Ok(response)
}

fn json(code: StatusCode, body: Bytes) -> Response<Body> {
    with_type(code, Body::new(stream::once(async move { Ok(body) })))
}

fn with_type(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn status(code: StatusCode, message: &str) -> Response<Body> {
    let reason = if code == StatusCode::GONE { "Expired" } else { "NotFound" };
    let text = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{}}}"#,
        code.as_u16()
    );
    json(code, text.into())
}

/// The resource of a list or watch.
struct CacheRequest {
    group: String,
    version: String,
    resource: String,
    namespace: String,
}

impl CacheRequest {
    /// `None` if the path is that of one object or of a document.
    fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, resource) = match rest {
            [resource] => ("", resource),
            ["namespaces", namespace, resource] => (*namespace, resource),
            _ => return None,
        };
        Some(CacheRequest {
            group: group.to_owned(),
            version: (*version).to_owned(),
            resource: (*resource).to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    fn is_of(&self, cache: &Cache) -> bool {
        cache.group == self.group && cache.version == self.version && cache.resource == self.resource
    }

    fn name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }
}
