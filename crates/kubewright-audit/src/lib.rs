//! Audit of API requests: callers, actions and times, as JSON lines in the form of kube-apiserver.
//!
//! An [`AuditPolicy`] decides how much of a request is recorded. An [`AuditTrail`] follows one
//! request and writes an event for each of its stages to each [`AuditSink`].
//!
//! An event that cannot be written is reported once in the server's own log and does not fail the
//! request, as with the modes `blocking` and `batch` of kube-apiserver.
//!
//! ```
//! use kubewright_audit::AuditPolicy;
//!
//! let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
//! assert!(AuditPolicy::from_yaml(policy).is_ok());
//! let error = AuditPolicy::from_yaml("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}]}").unwrap_err();
//! assert!(error.to_string().contains("All"));
//! ```

mod log;
mod policy;
mod trail;
mod webhook;

use std::future::Future;
use std::sync::Arc;

use kubewright_core::Value;
use tokio::sync::watch;

pub use log::{AuditLog, AuditLogOptions};
pub use policy::{AuditLevel, AuditPolicy, PolicyError, Stage};
pub use trail::{AuditTrail, AuditedRequest};
pub use webhook::{AuditWebhook, AuditWebhookOptions};

/// Where audit events go.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditSink {
    /// A file.
    Log(AuditLog),
    /// A server.
    Webhook(AuditWebhook),
}

impl From<AuditLog> for AuditSink {
    fn from(log: AuditLog) -> Self {
        AuditSink::Log(log)
    }
}

impl From<AuditWebhook> for AuditSink {
    fn from(webhook: AuditWebhook) -> Self {
        AuditSink::Webhook(webhook)
    }
}

/// A policy, and where its events go.
#[derive(Debug)]
pub struct Auditor {
    policy: AuditPolicy,
    sinks: Vec<AuditSink>,
}

impl Auditor {
    /// Records what the policy asks for.
    pub fn new(policy: AuditPolicy, sinks: impl IntoIterator<Item = AuditSink>) -> Arc<Self> {
        Arc::new(Auditor { policy, sinks: sinks.into_iter().collect() })
    }

    /// The tasks that send events to webhooks, until `stop` is true. The server runs them.
    pub fn senders(&self, stop: &watch::Receiver<bool>) -> impl Iterator<Item = impl Future<Output = ()> + use<>> {
        let sender = |sink: &AuditSink| match sink {
            AuditSink::Log(_) => None,
            AuditSink::Webhook(webhook) => webhook.sender(),
        };
        self.sinks.iter().filter_map(sender).map(|batches| batches.run(stop.clone()))
    }

    fn write(&self, event: &Value) {
        for sink in &self.sinks {
            match sink {
                AuditSink::Log(log) => log.write(event),
                AuditSink::Webhook(webhook) => webhook.write(event),
            }
        }
    }
}
