//! Results of validators and mutators: warnings and denials.

use std::fmt;

use kubewright_core::meta::v1::Status;
use kubewright_core::{StatusReason, Str};

use super::response::AdmissionResponse;
use crate::error::{BoxError, chain};

/// Warnings for the requester, which `kubectl` prints. `Ok(())` is none, and so is an empty text.
///
/// Keep each below 120 characters.
#[doc(alias = "admission.Warnings")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warnings(pub(super) Vec<Str>);

impl From<()> for Warnings {
    fn from((): ()) -> Self {
        Warnings::default()
    }
}

impl From<&str> for Warnings {
    fn from(text: &str) -> Self {
        [text].into_iter().collect()
    }
}

impl From<String> for Warnings {
    fn from(text: String) -> Self {
        [text].into_iter().collect()
    }
}

impl<T: Into<Str>> From<Vec<T>> for Warnings {
    fn from(texts: Vec<T>) -> Self {
        texts.into_iter().collect()
    }
}

impl<T: Into<Str>> FromIterator<T> for Warnings {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        Warnings(texts.into_iter().map(Into::into).filter(|text: &Str| !text.is_empty()).collect())
    }
}

/// Why a write is denied.
///
/// A text becomes code 403. A [`Status`], such as [`Status::invalid`] with the invalid fields, is
/// returned as it is, and so is the status in a client error. Any other error means that the
/// handler failed, which is code 500.
///
/// ```
/// # use kubewright_runtime::webhook::Denial;
/// fn check(size: i64) -> Result<(), Denial> {
///     if size > 100 {
///         return Err(format!("{size} is more than 100").into());
///     }
///     Ok(())
/// }
/// assert_eq!(check(101).unwrap_err().to_string(), "101 is more than 100");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// Boxed, so that results with it are small.
    status: Box<Status>,
    warnings: Warnings,
}

impl Denial {
    /// Adds a warning for the requester.
    #[must_use]
    pub fn warning(mut self, text: impl Into<Str>) -> Self {
        self.warnings.0.push(text.into());
        self
    }

    /// The status that the requester gets.
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl From<&str> for Denial {
    fn from(message: &str) -> Self {
        Denial::from(Status::failure(StatusReason::Forbidden, message))
    }
}

impl From<String> for Denial {
    fn from(message: String) -> Self {
        Denial::from(Status::failure(StatusReason::Forbidden, message))
    }
}

impl From<Status> for Denial {
    fn from(status: Status) -> Self {
        Denial { status: status.into(), warnings: Warnings::default() }
    }
}

impl From<kubewright_client::Error> for Denial {
    fn from(error: kubewright_client::Error) -> Self {
        let status = error.status().cloned();
        status.unwrap_or_else(|| Status::internal(chain(&error))).into()
    }
}

impl From<BoxError> for Denial {
    fn from(error: BoxError) -> Self {
        Status::internal(chain(&*error)).into()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status.message.as_deref().unwrap_or("denied"))
    }
}

impl std::error::Error for Denial {}

/// The response with these warnings, or this denial.
pub(super) fn response<W: Into<Warnings>>(
    decided: Result<W, Denial>,
    allowed: impl FnOnce() -> AdmissionResponse,
) -> AdmissionResponse {
    let (response, warnings) = match decided {
        Ok(warnings) => (allowed(), warnings.into()),
        Err(denial) => (AdmissionResponse::status(*denial.status), denial.warnings),
    };
    warnings.0.into_iter().fold(response, AdmissionResponse::warning)
}
