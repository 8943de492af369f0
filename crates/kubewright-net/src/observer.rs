//! Observes events below the request level.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Receives transport metrics. All methods do nothing by default.
///
/// With the feature `metrics` there is an implementation for Prometheus with client-go's metric
/// names.
pub trait TransportMetrics: Send + Sync + 'static {
    /// A DNS lookup has completed.
    #[doc(alias = "ResolverLatency")]
    fn resolved(&self, host: &str, took: Duration) {
        let _ = (host, took);
    }

    /// An exec plugin was run, or could not be.
    #[doc(alias = "ExecPluginCalls")]
    fn exec_plugin_called(&self, outcome: ExecOutcome) {
        let _ = outcome;
    }

    /// An exec plugin returned credentials with this expiry; `None` means never.
    #[doc(alias = "ClientCertExpiry")]
    fn exec_plugin_expiry(&self, expires: Option<Instant>) {
        let _ = expires;
    }

    /// A certificate of an exec plugin was replaced at this age.
    #[doc(alias = "ClientCertRotationAge")]
    fn certificate_rotated(&self, age: Duration) {
        let _ = age;
    }

    /// A transport was created. There is no cache of transports: clones of a client share one, and
    /// it ends with the last clone.
    #[doc(alias = "TransportCreateCalls")]
    fn transport_created(&self) {}

    /// A transport has ended.
    #[doc(alias = "TransportCacheEntries")]
    fn transport_ended(&self) {}
}

/// The outcome of an exec plugin run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecOutcome {
    /// Credentials were returned.
    Done,
    /// It failed with this code, by a signal, or by a timeout.
    Failed {
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// The program does not exist.
    NotFound,
    /// It was not run, or its output was invalid.
    Internal,
}

/// A handle to [`TransportMetrics`], for a configuration.
#[derive(Clone)]
pub struct TransportObserver(Arc<dyn TransportMetrics>);

impl TransportObserver {
    /// Reports to `metrics`.
    pub fn new(metrics: impl TransportMetrics) -> Self {
        TransportObserver(Arc::new(metrics))
    }
}

impl std::ops::Deref for TransportObserver {
    type Target = dyn TransportMetrics;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for TransportObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransportObserver")
    }
}
