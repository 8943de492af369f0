//! Errors of requests.

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
