//! The server's metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use kubewright_objects::object::StoredObject;
use kubewright_storage::Store;

/// Request counts by verb and status code.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl ServerMetrics {
    /// Counts a request.
    pub(crate) fn count(&self, verb: &'static str, code: u16) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry((verb, code)).or_default() += 1;
    }

    /// Renders all metrics, including those of the store.
    pub(crate) fn render(&self, store: &Store<StoredObject>) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Requests by verb and code.\n# TYPE apiserver_request_total counter\n",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((verb, code), count) in requests {
            let verb = verb.to_ascii_uppercase();
            let line = writeln!(text, "apiserver_request_total{{verb=\"{verb}\",code=\"{code}\"}} {count}");
            line.expect("writing to a string cannot fail");
        }
        let usage = store.usage();
        for (name, help, value) in [
            ("objects", "Objects in the store.", usage.objects as u64),
            ("events", "Events that can still be watched from.", usage.events as u64),
            ("watchers", "Watches that are open.", usage.watchers as u64),
            ("revision", "The revision of the last write.", store.current_revision()),
        ] {
            let lines = writeln!(
                text,
                "# HELP kubewright_store_{name} {help}\n# TYPE kubewright_store_{name} gauge\nkubewright_store_{name} {value}"
            );
            lines.expect("writing to a string cannot fail");
        }
        text
    }
}
