//! Patch errors and their HTTP statuses.

use std::{error::Error, fmt};

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason, Str};

/// Maximum number of operations in a JSON patch.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Why a patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch is malformed for its media type.
    Malformed(String),
    /// A JSON patch has too many operations.
    TooManyOperations(usize),
    /// An operation of a JSON patch does not apply to the object, or a test failed.
    DoesNotApply {
        /// Its index.
        operation: usize,
        /// The error with the path.
        message: String,
    },
    /// A strategic merge patch contains a list of lists, which cannot be merged.
    ListOfLists,
    /// A strategic merge patch does not match the object or its type. The server responds with an
    /// internal error.
    Unmergeable(String),
}

impl PatchError {
    pub(super) fn unmergeable(message: impl fmt::Display) -> Self {
        PatchError::Unmergeable(message.to_string())
    }
}

impl fmt::Display for PatchError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Malformed(message) | PatchError::Unmergeable(message) => f.write_str(message),
            PatchError::TooManyOperations(count) => {
                let limit = MAX_JSON_PATCH_OPERATIONS;
                write!(f, "The allowed maximum operations in a JSON patch is {limit}, got {count}")
            }
            PatchError::ListOfLists => f.write_str("lists of lists are not supported"),
            PatchError::DoesNotApply { operation, message } => write!(f, "operation {operation}: {message}"),
        }
    }
}

impl Error for PatchError {}

/// The server's status: 400, 413, 422 or 500.
impl From<PatchError> for Status {
    #[inline]
    fn from(error: PatchError) -> Status {
        let message = error.to_string();
        match error {
            PatchError::Malformed(_) => Status::failure(StatusReason::BadRequest, message),
            PatchError::TooManyOperations(_) => Status::failure(StatusReason::RequestEntityTooLarge, message),
            PatchError::DoesNotApply { .. } | PatchError::ListOfLists => {
                Status::from_code(422, "", &GroupResource::default(), "", &message)
            }
            PatchError::Unmergeable(_) => Status {
                status: Some(Str::from_static("Failure")),
                message: Some(message.into()),
                code: Some(500),
                ..Default::default()
            },
        }
    }
}
