//! Who is told of what happens below requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Somebody who counts what happens before a request can be sent. Each is nothing by default.
///
/// With the feature `metrics` there is one for Prometheus, with the names that Go's client uses.
pub trait TransportMetrics: Send + Sync + 'static {
    /// The addresses of a host were looked up.
    #[doc(alias = "ResolverLatency")]
    fn resolved(&self, host: &str, took: Duration) {
        let _ = (host, took);
    }

    /// An exec plugin was run, or could not be.
    #[doc(alias = "ExecPluginCalls")]
    fn exec_plugin_called(&self, outcome: ExecOutcome) {
        let _ = outcome;
    }

    /// An exec plugin gave credentials that are of use until then; for ever, if `None`.
    #[doc(alias = "ClientCertExpiry")]
    fn exec_plugin_expiry(&self, expires: Option<Instant>) {
        let _ = expires;
    }

    /// A certificate of an exec plugin was replaced by another, after it had served for `age`.
    #[doc(alias = "ClientCertRotationAge")]
    fn certificate_rotated(&self, age: Duration) {
        let _ = age;
    }

    /// A transport was made. There is no cache of them: clones of a client share one, and it ends with the last.
    #[doc(alias = "TransportCreateCalls")]
    fn transport_created(&self) {}

    /// A transport has ended.
    #[doc(alias = "TransportCacheEntries")]
    fn transport_ended(&self) {}
}

/// How the run of an exec plugin ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecOutcome {
    /// With credentials.
    Done,
    /// With this code, or by a signal or for lack of time.
    Failed {
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// The program is not there.
    NotFound,
    /// It was not run, or what it printed was no use.
    Internal,
}

/// A handle on [`TransportMetrics`], for a configuration.
#[derive(Clone)]
pub struct TransportObserver(Arc<dyn TransportMetrics>);

impl TransportObserver {
    /// Tells `metrics`.
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
