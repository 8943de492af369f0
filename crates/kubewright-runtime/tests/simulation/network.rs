//! The network between a process and the server, with faults.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use kubewright_client::Client;
use kubewright_client::transport::{Body, ResponseFuture, TransportError, TransportErrorKind};
use tokio::sync::watch;

/// A failure of every new request, until it is healed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No connection can be made.
    Refused,
    /// The server carries the request out, and the connection breaks before the response.
    Reset,
    /// The server answers with this code; with `Retry-After: 1` for 429.
    Answer(u16),
    /// A proxy in front of the server answers 404 with a body that is no `Status`.
    PlainNotFound,
}

impl Outage {
    /// Whether the failure means that the server is down, and not that the caller must act
    /// differently.
    ///
    /// Only after such a failure must a cache be fresh within seconds.
    pub fn is_server_down(self) -> bool {
        !matches!(self, Outage::PlainNotFound | Outage::Answer(403 | 404 | 410 | 429))
    }
}

/// The end of open streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection breaks.
    Reset,
    /// The response ends, as a watch does after its timeout.
    End,
    /// The connection breaks in the middle of the next chunk.
    InTheMiddle,
    /// The server sends an `ERROR` event with this code.
    Error(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Streams {
    /// Streams that were opened before this cut have to end.
    cuts: u64,
    last_cut: Cut,
    is_stalled: bool,
}

#[derive(Debug, Default)]
struct Rules {
    outage: Option<Outage>,
    revoked: BTreeSet<String>,
}

/// The faults of one network. A handle: clones are the same network.
#[derive(Debug, Clone)]
pub struct Network {
    rules: Arc<Mutex<Rules>>,
    streams: watch::Sender<Streams>,
}

impl Network {
    pub fn new() -> Self {
        let streams = Streams { cuts: 0, last_cut: Cut::End, is_stalled: false };
        Network { rules: Arc::default(), streams: watch::Sender::new(streams) }
    }

    /// A client that reaches the server of `direct` through this network.
    pub fn client(&self, direct: &Client) -> Client {
        let network = self.clone();
        let direct = direct.clone();
        Client::over(move |request: Request<Bytes>| -> ResponseFuture {
            let network = network.clone();
            let direct = direct.clone();
            Box::pin(async move { network.send(&direct, request).await })
        })
    }

    /// Begins an outage, or ends the current one. Open streams are not affected.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.rules.lock().unwrap().outage = outage;
    }

    /// Makes the server reject all requests in a namespace, or ends this.
    pub fn set_revoked(&self, namespace: &str, is_revoked: bool) {
        let revoked = &mut self.rules.lock().unwrap().revoked;
        if is_revoked {
            revoked.insert(namespace.to_owned());
        } else {
            revoked.remove(namespace);
        }
    }

    /// Ends all open streams.
    pub fn cut(&self, cut: Cut) {
        self.streams.send_modify(|streams| {
            streams.cuts += 1;
            streams.last_cut = cut;
        });
    }

    /// Stalls open streams, or resumes them.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.streams.send_modify(|streams| streams.is_stalled = is_stalled);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        *self.rules.lock().unwrap() = Rules::default();
        self.set_stalled(false);
    }

    async fn send(&self, direct: &Client, request: Request<Bytes>) -> Result<Response<Body>, TransportError> {
        let (outage, is_revoked) = {
            let rules = self.rules.lock().unwrap();
            let is_revoked = rules.revoked.iter().any(|name| is_in_namespace(request.uri().path(), name));
            (rules.outage, is_revoked)
        };
        match outage {
            None if is_revoked => Ok(failure(403)),
            None => {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
                let response = direct.transport().send(request).await?;
                Ok(if is_watch { self.watched(response) } else { response })
            }
            Some(Outage::Refused) => Err(TransportError::new(TransportErrorKind::Connect, "connection refused")),
            Some(Outage::Reset) => {
                drop(direct.transport().send(request).await);
                Err(disconnected())
            }
            Some(Outage::Answer(code)) => Ok(failure(code)),
            Some(Outage::PlainNotFound) => {
                let response = Response::builder().status(404).header("content-type", "text/plain");
                Ok(response.body(body_of("404 page not found\n")).expect("the header is valid"))
            }
        }
    }

    /// A watch response with stream faults.
    fn watched(&self, response: Response<Body>) -> Response<Body> {
        let is_json = response.headers().get("content-type").is_some_and(|kind| kind == "application/json");
        let mut streams = self.streams.subscribe();
        let cuts = streams.borrow_and_update().cuts;
        response.map(|body| {
            let open = Open { body, is_json, streams, cuts };
            Body::new(stream::unfold(Some(open), |open| async move { open?.next().await }))
        })
    }
}

/// A watch that is open.
struct Open {
    body: Body,
    is_json: bool,
    streams: watch::Receiver<Streams>,
    cuts: u64,
}

type Chunk = Result<Bytes, TransportError>;

impl Open {
    async fn next(mut self) -> Option<(Chunk, Option<Self>)> {
        loop {
            let streams = *self.streams.borrow_and_update();
            if streams.cuts != self.cuts {
                return self.end(streams.last_cut).await;
            }
            tokio::select! {
                biased;
                changed = self.streams.changed() => if changed.is_err() { return None },
                chunk = self.body.chunk(), if !streams.is_stalled => {
                    return chunk.transpose().map(|chunk| (chunk, Some(self)));
                }
            }
        }
    }

    async fn end(mut self, cut: Cut) -> Option<(Chunk, Option<Self>)> {
        match cut {
            Cut::Reset => Some((Err(disconnected()), None)),
            Cut::End => None,
            Cut::InTheMiddle => {
                let chunk = self.body.chunk().await.ok()??;
                Some((Ok(chunk.slice(..chunk.len() / 2)), None))
            }
            // A protobuf event would have to be encoded by the code under test.
            Cut::Error(_) if !self.is_json => Some((Err(disconnected()), None)),
            Cut::Error(code) => {
                let event = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(code));
                Some((Ok(Bytes::from(event)), None))
            }
        }
    }
}

fn is_in_namespace(path: &str, namespace: &str) -> bool {
    path.contains(&format!("/namespaces/{namespace}/"))
}

fn disconnected() -> TransportError {
    TransportError::new(TransportErrorKind::Disconnected, "connection reset by peer")
}

fn failure(code: u16) -> Response<Body> {
    let mut response = Response::builder().status(code).header("content-type", "application/json");
    if code == 429 {
        response = response.header("retry-after", "1");
    }
    response.body(body_of(status(code))).expect("the headers are valid")
}

fn status(code: u16) -> String {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        _ => "ServiceUnavailable",
    };
    let message = "a simulated failure";
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#
    )
}

fn body_of(text: impl Into<Bytes>) -> Body {
    Body::new(stream::iter([Ok(text.into())]))
}
