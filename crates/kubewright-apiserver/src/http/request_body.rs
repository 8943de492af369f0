//! Request bodies, which are read after authorization only.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{EXPECT, HeaderMap};
use kubewright_core::meta::v1::Status;
use tokio::time::timeout;

use super::lingering_close::Leftover;
use super::memory::{MemoryBudget, MemoryReservation};
use kubewright_objects::rejection::Rejection;

/// The maximum size of a body.
const BODY_MAX: usize = 3 << 20;
/// An unread HTTP/1.1 body is discarded up to this size, so that its connection can be used
/// again. As in Go's servers.
const DISCARDED_MAX: u64 = 256 << 10;
/// Time limit for draining.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// A request body that may not have arrived yet.
pub(crate) enum RequestBody {
    Whole(Bytes),
    /// The flag is set until the body is read to its end.
    Http1(Incoming, Leftover),
    Http2(RecvStream),
}

/// A body in memory.
#[derive(Default)]
pub(crate) struct BufferedBody {
    pub(crate) bytes: Bytes,
    _memory: MemoryReservation,
}

impl RequestBody {
    pub(crate) fn http1(body: Incoming, leftover: Leftover) -> Self {
        leftover.set(!body.is_end_stream());
        RequestBody::Http1(body, leftover)
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    ///
    /// 413 if it is too large, 429 if the memory budget is exhausted, 400 if it is incomplete.
    pub(crate) async fn read(&mut self, budget: &MemoryBudget) -> Result<BufferedBody, Rejection> {
        let mut collected =
            Collected { budget, first: Bytes::new(), rest: BytesMut::new(), memory: MemoryReservation::default() };
        match self {
            RequestBody::Whole(bytes) => collected.add(std::mem::take(bytes))?,
            RequestBody::Http1(body, leftover) => {
                if body.size_hint().lower() > BODY_MAX as u64 {
                    return Err(too_large());
                }
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(broken)?;
                    collected.add(frame.into_data().unwrap_or_default())?;
                }
                leftover.set(false);
            }
            RequestBody::Http2(stream) => {
                while let Some(bytes) = stream.data().await {
                    let bytes = bytes.map_err(broken)?;
                    let _ = stream.flow_control().release_capacity(bytes.len());
                    collected.add(bytes)?;
                }
            }
        }
        Ok(collected.finish())
    }

    /// Drains the body and returns the rejection.
    pub(crate) async fn reject<T>(&mut self, headers: &HeaderMap, rejection: Rejection) -> Result<T, Rejection> {
        self.discard(headers).await;
        Err(rejection)
    }

    /// Drains a small body, so that the connection can be reused. HTTP/2 does not need this.
    pub(crate) async fn discard(&mut self, headers: &HeaderMap) {
        let RequestBody::Http1(body, leftover) = self else { return };
        // A client with `Expect: 100-continue` does not send the body without our consent.
        if !leftover.is_set() || headers.contains_key(EXPECT) || body.size_hint().lower() > DISCARDED_MAX {
            return;
        }
        let mut length = 0;
        let reading = async {
            while length <= DISCARDED_MAX {
                match body.frame().await {
                    Some(Ok(frame)) => length += frame.into_data().map_or(0, |data| data.len() as u64),
                    Some(Err(_)) => return,
                    None => return leftover.set(false),
                }
            }
        };
        // On a timeout the connection is closed after the response.
        let _ = timeout(DISCARD_TIMEOUT, reading).await;
    }
}

/// The received part of a body. A single chunk, the common case, is not copied.
struct Collected<'a> {
    budget: &'a MemoryBudget,
    first: Bytes,
    rest: BytesMut,
    memory: MemoryReservation,
}

impl Collected<'_> {
    fn add(&mut self, bytes: Bytes) -> Result<(), Rejection> {
        if self.first.len() + self.rest.len() + bytes.len() > BODY_MAX {
            return Err(too_large());
        }
        if !self.budget.extend(&mut self.memory, bytes.len()) {
            let message = "too many bytes of request bodies are in memory, please try again later";
            return Err(Status::too_many_requests(message, 1).into());
        }
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = bytes;
        } else {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
            self.rest.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn finish(self) -> BufferedBody {
        let bytes = if self.rest.is_empty() { self.first } else { self.rest.freeze() };
        BufferedBody { bytes, _memory: self.memory }
    }
}

fn too_large() -> Rejection {
    Status::request_entity_too_large(format!("limit is {BODY_MAX}")).into()
}

fn broken(error: impl std::fmt::Display) -> Rejection {
    Status::bad_request(error.to_string()).into()
}
