//! Audit of API requests: callers, actions and times, as JSON lines in the form of kube-apiserver.
//!
//! An [`AuditPolicy`] decides how much of a request is recorded. An [`AuditTrail`] follows one
//! request and writes an event for each of its stages to an [`AuditLog`].
//!
//! A write that cannot be logged is reported once in the server's own log and does not fail the
//! request, as with the mode `blocking` of kube-apiserver. There is no webhook backend.

mod log;
mod policy;
mod trail;

use std::sync::Arc;

pub use log::{AuditLog, AuditLogOptions};
pub use policy::{AuditLevel, AuditPolicy, PolicyError, Stage};
pub use trail::{AuditTrail, AuditedRequest};

/// A policy, and the log that it fills.
#[derive(Debug)]
pub struct Auditor {
    policy: AuditPolicy,
    log: AuditLog,
}

impl Auditor {
    /// Records what the policy asks for.
    pub fn new(policy: AuditPolicy, log: AuditLog) -> Arc<Self> {
        Arc::new(Auditor { policy, log })
    }
}
