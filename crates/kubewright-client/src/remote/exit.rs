//! Exit status of a process.

use kubewright_core::meta::v1::Status;

/// Exit status of a process.
#[derive(Debug, Clone, PartialEq)]
#[doc(alias = "CodeExitError")]
pub struct ExitStatus {
    status: Box<Status>,
}

impl ExitStatus {
    pub(super) fn new(status: Box<Status>) -> Self {
        ExitStatus { status }
    }

    /// Whether the process succeeded.
    pub fn success(&self) -> bool {
        self.code() == Some(0)
    }

    /// The exit code; `None` if the process was not started or was killed.
    #[doc(alias = "ExitStatus")]
    pub fn code(&self) -> Option<i32> {
        if !self.status.is_failure() {
            return Some(0);
        }
        let cause = self.status.causes().iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
        cause.message.as_deref()?.parse().ok()
    }

    /// The server's status.
    pub fn status(&self) -> &Status {
        &self.status
    }
}
