//! How a process ended.

use kubewright_core::meta::v1::Status;

/// How a process ended.
#[derive(Debug, Clone, PartialEq)]
#[doc(alias = "CodeExitError")]
pub struct ExitStatus {
    status: Box<Status>,
}

impl ExitStatus {
    pub(super) fn new(status: Box<Status>) -> Self {
        ExitStatus { status }
    }

    /// Whether it ended well.
    pub fn success(&self) -> bool {
        self.code() == Some(0)
    }

    /// The code it ended with; none if it was not started or was killed.
    #[doc(alias = "ExitStatus")]
    pub fn code(&self) -> Option<i32> {
        if !self.status.is_failure() {
            return Some(0);
        }
        let cause = self.status.causes().iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
        cause.message.as_deref()?.parse().ok()
    }

    /// What the server says of it.
    pub fn status(&self) -> &Status {
        &self.status
    }
}
