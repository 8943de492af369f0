//! Options of simulated nodes.

use std::time::Duration;

/// A simulated node with this annotation is silent, as if it had failed:
/// `kubewright.dev/failed: "true"`.
pub const FAILED_ANNOTATION: &str = "kubewright.dev/failed";

/// A simulated node with this annotation is slow: all delays and run times of its pods are
/// multiplied by the value, from 0.001 to 1000. `kubewright.dev/slowdown: "5"`.
pub const SLOWDOWN_ANNOTATION: &str = "kubewright.dev/slowdown";

/// Options of simulated nodes.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub(super) count: u32,
    pub(super) start_delay: Duration,
    pub(super) ready_delay: Duration,
    pub(super) run_time: Duration,
    pub(super) stop_delay: Duration,
}

/// Three nodes; 100 ms each to start a pod, to make it ready, and to stop it; pods of jobs run for
/// a second.
impl Default for NodeOptions {
    fn default() -> Self {
        let moment = Duration::from_millis(100);
        NodeOptions {
            count: 3,
            start_delay: moment,
            ready_delay: moment,
            run_time: Duration::from_secs(1),
            stop_delay: moment,
        }
    }
}

impl NodeOptions {
    /// Number of nodes. 3 by default.
    #[must_use]
    pub fn count(mut self, nodes: u32) -> Self {
        self.count = nodes;
        self
    }

    /// Delay until a scheduled pod runs. 100 ms by default.
    #[must_use]
    pub fn start_delay(mut self, delay: Duration) -> Self {
        self.start_delay = delay;
        self
    }

    /// Delay until a running pod is ready. 100 ms by default.
    #[must_use]
    pub fn ready_delay(mut self, delay: Duration) -> Self {
        self.ready_delay = delay;
        self
    }

    /// How long pods that end by themselves run. 1 s by default.
    #[must_use]
    pub fn run_time(mut self, time: Duration) -> Self {
        self.run_time = time;
        self
    }

    /// How long a deleted pod takes to stop, at most its grace period. 100 ms by default.
    #[must_use]
    pub fn stop_delay(mut self, delay: Duration) -> Self {
        self.stop_delay = delay;
        self
    }

    pub(crate) fn has_any(&self) -> bool {
        self.count > 0
    }

    /// The names of the nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.count).map(|number| format!("{PREFIX}{number}"))
    }

    /// The number of a simulated node.
    pub(super) fn number_of(&self, name: &str) -> Option<u32> {
        number_in(name).filter(|number| (1..=self.count).contains(number))
    }

    /// Whether the name is that of a node from an earlier start that is no longer wanted.
    pub(super) fn is_former(&self, name: &str) -> bool {
        number_in(name).is_some() && !self.is_ours(name)
    }

    pub(super) fn is_ours(&self, name: &str) -> bool {
        self.number_of(name).is_some()
    }

    /// The address of a node.
    pub(super) fn address_of(number: u32) -> String {
        format!("192.168.{}.{}", 49 + (number >> 8), number & 255)
    }
}

fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

const PREFIX: &str = "kubewright-node-";
