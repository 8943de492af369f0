//! Errors of requests.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};

/// A refusal on its way to the client.
#[derive(Debug)]
pub enum Rejection {
    /// A Status, encoded in the negotiated format.
    Status(Box<Status>),
    /// Plain text 404: there is no such path.
    NoSuchPage,
    /// A webhook has to answer first. Admission control then runs the write again.
    NeedsWebhook,
    /// An authorization webhook has to answer first. See [`retry_with_answers`].
    NeedsAuthorization(PendingAuthorization),
}

/// A call of an authorization webhook. Its answer is remembered, so that the attempt that needs it
/// finds it in the next run.
pub struct PendingAuthorization(Pin<Box<dyn Future<Output = ()> + Send>>);

impl PendingAuthorization {
    /// The call is made when [`answered`](Self::answered) is awaited.
    pub fn new(call: impl Future<Output = ()> + Send + 'static) -> Self {
        PendingAuthorization(Box::pin(call))
    }

    /// Waits for the answer.
    pub async fn answered(self) {
        self.0.await;
    }
}

impl fmt::Debug for PendingAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingAuthorization")
    }
}

/// Maximum number of calls of authorization webhooks for one attempt.
const ANSWERS_MAX: usize = 256;

/// Runs `attempt` until it needs no further answer of an authorization webhook.
///
/// An attempt authorizes before it has an effect, so that it can run again.
pub async fn retry_with_answers<T>(mut attempt: impl FnMut() -> Result<T, Rejection>) -> Result<T, Rejection> {
    for _ in 0..ANSWERS_MAX {
        match attempt() {
            Err(Rejection::NeedsAuthorization(pending)) => pending.answered().await,
            other => return other,
        }
    }
    Err(Status::internal("the request needs too many answers of an authorization webhook").into())
}

impl Rejection {
    /// 404 for an unknown resource of a served group.
    pub fn no_such_resource() -> Self {
        Status::from_code(404, "", &GroupResource::default(), "", "").into()
    }

    /// 405 for a path that supports other methods only.
    pub fn no_such_method() -> Self {
        Status::from_code(405, "", &GroupResource::default(), "", "").into()
    }

    /// 500 without a reason, as for unexpected errors of the real server.
    pub fn unexpected(message: impl Into<kubewright_core::Str>) -> Self {
        let mut status = Status::failure(StatusReason::Unknown, message);
        status.code = Some(500);
        status.into()
    }

    /// 501 for what only the node could answer on which something runs.
    pub fn needs_node(plural: &str, name: &str, what: &str) -> Self {
        let message = format!("{what} of {plural} {name:?} is not available: no node runs anything on this server");
        let mut status = Status::failure(StatusReason::Unknown, message);
        status.code = Some(501);
        status.into()
    }

    /// 501 for features that are not implemented yet.
    pub fn not_implemented(what: &str) -> Self {
        let mut status = Status::failure(StatusReason::Unknown, format!("{what} is not implemented yet"));
        status.code = Some(501);
        status.into()
    }
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Rejection::Status(Box::new(status))
    }
}

impl From<Box<Status>> for Rejection {
    fn from(status: Box<Status>) -> Self {
        Rejection::Status(status)
    }
}
