//! Why a request is not done.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};

use crate::admission::control::Question;
use crate::catalog::Resource;
use crate::conversion::webhook::Pending;

/// A refusal on its way to the client.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// With a status object, in the form that the client understands.
    Status(Box<Status>),
    /// In plain text: the path leads nowhere.
    NoSuchPage,
    /// Not yet: webhooks have to be asked first, see [`Control::decided`](crate::admission::control::Control::decided).
    Undecided(Box<Question>),
    /// Not yet: a webhook has to convert an object first, which the same does.
    Unconverted(Box<Pending>),
}

impl Rejection {
    /// 404 for a path of a group that is served, which leads nowhere in it.
    pub(crate) fn no_such_resource() -> Self {
        Status::from_code(404, "", &GroupResource::default(), "", "").into()
    }

    /// 405 for a path that is served with other methods.
    pub(crate) fn no_such_method() -> Self {
        Status::from_code(405, "", &GroupResource::default(), "", "").into()
    }

    /// 500 without a reason: what the server answers where it did not expect to fail.
    pub(crate) fn unexpected(message: impl Into<kubewright_core::Str>) -> Self {
        let mut status = Status::failure(StatusReason::Unknown, message);
        status.code = Some(500);
        status.into()
    }

    /// 501 for what only the node could answer on which something runs.
    pub(crate) fn needs_node(resource: &Resource, name: &str, what: &str) -> Self {
        let plural = &resource.plural;
        let message = format!("{what} of {plural} {name:?} is not available: no node runs anything on this server");
        let mut status = Status::failure(StatusReason::Unknown, message);
        status.code = Some(501);
        status.into()
    }

    /// 501 for what is to be built.
    pub(crate) fn not_implemented(what: &str) -> Self {
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
