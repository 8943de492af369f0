//! Fault injection: lets tests trigger network and server failures on demand.
//!
//! A [`Fault`] filters requests and has an effect. [`Faults`] injects them. It can also cut all
//! watches, compact the event log, and freeze or restart the server. Random choices are seeded.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kubewright_apiserver::{ApiServer, Fault};
//! let server = ApiServer::in_memory().start().await?;
//! // The next three updates of config maps conflict, and one list in ten takes a second longer.
//! server.faults().inject(Fault::answer(409).verb("update").resource("configmaps").times(3));
//! let second = std::time::Duration::from_secs(1);
//! server.faults().inject(Fault::delay(second).verb("list").probability(0.1));
//! # Ok(()) }
//! ```

mod fault;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub use fault::Fault;
pub(crate) use fault::{FaultEffect, status};

use crate::registry::Registry;
use crate::request::RequestInfo;

/// The path of the fault injection endpoint.
pub(crate) const PATH: &str = "/kubewright/faults";

/// Injects faults into a running server. Clones refer to the same server.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<SharedFaults>,
}

struct SharedFaults {
    registry: Arc<Registry>,
    state: Mutex<FaultState>,
    active_faults: watch::Sender<ActiveFaults>,
}

struct FaultState {
    faults: Vec<Fault>,
    /// The seeded random number generator.
    random: fastrand::Rng,
}

/// Faults that affect all streams and connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActiveFaults {
    /// Number of times that all streams were cut.
    pub(crate) cuts: u64,
    /// Number of times that all connections were closed.
    pub(crate) restarts: u64,
    pub(crate) is_frozen: bool,
}

impl Faults {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let state = Mutex::new(FaultState { faults: Vec::new(), random: fastrand::Rng::with_seed(1) });
        Faults { shared: Arc::new(SharedFaults { registry, state, active_faults: watch::Sender::default() }) }
    }

    /// Adds a fault. If several match a request, the oldest one applies.
    pub fn inject(&self, fault: Fault) {
        self.state(|state| state.faults.push(fault));
    }

    /// Removes all faults, and thaws a frozen server.
    pub fn clear(&self) {
        self.state(|state| state.faults.clear());
        self.thaw();
    }

    /// Restarts the random sequence with this seed. The seed is 1 by default.
    pub fn seed(&self, seed: u64) {
        self.state(|state| state.random = fastrand::Rng::with_seed(seed));
    }

    /// Breaks all open watches, even in the middle of an event.
    pub fn cut_watches(&self) {
        self.shared.active_faults.send_modify(|active_faults| active_faults.cuts += 1);
    }

    /// Compacts the event log. Watches from older versions and pages of older lists then get 410.
    pub fn compact(&self) {
        self.shared.registry.store.compact();
    }

    /// Stops responding: requests and watches wait until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.shared.active_faults.send_modify(|active_faults| active_faults.is_frozen = true);
    }

    /// Resumes after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.shared.active_faults.send_modify(|active_faults| active_faults.is_frozen = false);
    }

    /// Simulates a restart with the same data: connections and watches break, and the event log is
    /// empty.
    pub fn restart(&self) {
        self.compact();
        self.shared.active_faults.send_modify(|active_faults| {
            active_faults.cuts += 1;
            active_faults.restarts += 1;
        });
    }

    pub(crate) fn active_faults(&self) -> watch::Receiver<ActiveFaults> {
        self.shared.active_faults.subscribe()
    }

    /// The effect of the first matching fault, if there is one.
    pub(crate) fn next_effect(&self, info: &RequestInfo) -> Option<FaultEffect> {
        self.state(|state| {
            let FaultState { faults, random } = state;
            let at = faults.iter().position(|fault| fault.fits(info) && fault.is_due(random))?;
            let effect = faults[at].effect.clone();
            if faults[at].is_used_up() {
                faults.remove(at);
            }
            Some(effect)
        })
    }

    fn state<R>(&self, work: impl FnOnce(&mut FaultState) -> R) -> R {
        work(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state(|state| f.debug_struct("Faults").field("faults", &state.faults).finish_non_exhaustive())
    }
}
