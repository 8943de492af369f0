//! Faults on request: what networks and servers do to controllers on a bad day, at the moment a test wants it.
//!
//! A [`Fault`] says which requests it hits and what happens to them; [`Faults`] is the handle through which it is
//! injected, and which also cuts all watches, forgets the past, freezes and restarts the server. Everything that
//! depends on chance goes by a seed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kubewright_apiserver::{ApiServer, Fault};
//! let server = ApiServer::in_memory().start().await?;
//! // The next three writes of config maps meet a conflict, and one list in ten takes a second.
//! server.faults().inject(Fault::answer(409).verb("update").resource("configmaps").times(3));
//! server.faults().inject(Fault::delay(std::time::Duration::from_secs(1)).verb("list").probability(0.1));
//! # Ok(()) }
//! ```

mod fault;
mod page;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub use fault::Fault;
pub(crate) use fault::{Effect, status};
pub(crate) use page::answer;

use crate::registry::Registry;
use crate::request::RequestInfo;

/// Where faults are injected by requests.
pub(crate) const PATH: &str = "/kubewright/faults";

/// Injects faults into a running server. A handle: clones are the same.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Registry>,
    state: Mutex<State>,
    weather: watch::Sender<Weather>,
}

struct State {
    faults: Vec<Fault>,
    /// Never zero, as the generator wants it.
    chance: u64,
}

/// What concerns all streams and connections at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    /// How often all streams were cut.
    pub(crate) cuts: u64,
    /// How often all connections were closed.
    pub(crate) restarts: u64,
    pub(crate) is_frozen: bool,
}

impl Faults {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let state = Mutex::new(State { faults: Vec::new(), chance: 1 });
        Faults { shared: Arc::new(Shared { registry, state, weather: watch::Sender::default() }) }
    }

    /// Adds a fault. Of several that fit a request, the first that was injected strikes.
    pub fn inject(&self, fault: Fault) {
        self.state(|state| state.faults.push(fault));
    }

    /// Takes back all faults, and lets a frozen server go on.
    pub fn clear(&self) {
        self.state(|state| state.faults.clear());
        self.thaw();
    }

    /// Begins the sequence of chances anew, from this number. The sequence of 1 by default.
    pub fn seed(&self, seed: u64) {
        self.state(|state| state.chance = seed.max(1));
    }

    /// Breaks all watches that are open, in the middle of whatever they were sending.
    pub fn cut_watches(&self) {
        self.shared.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Forgets all events up to now: watches from older versions and pages of older lists are answered with 410.
    pub fn compact(&self) {
        self.shared.registry.store.compact();
    }

    /// Stops answering: requests and watches wait until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.shared.weather.send_modify(|weather| weather.is_frozen = true);
    }

    /// Goes on after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.shared.weather.send_modify(|weather| weather.is_frozen = false);
    }

    /// Behaves like a server that was started anew with the same data: connections and watches break, and events of the
    /// past are forgotten.
    pub fn restart(&self) {
        self.compact();
        self.shared.weather.send_modify(|weather| {
            weather.cuts += 1;
            weather.restarts += 1;
        });
    }

    pub(crate) fn weather(&self) -> watch::Receiver<Weather> {
        self.shared.weather.subscribe()
    }

    /// What happens to a request, if anything does.
    pub(crate) fn strike(&self, info: &RequestInfo) -> Option<Effect> {
        self.state(|state| {
            let State { faults, chance } = state;
            let at = faults.iter().position(|fault| fault.fits(info) && fault.is_due(chance))?;
            let effect = faults[at].effect.clone();
            if faults[at].is_used_up() {
                faults.remove(at);
            }
            Some(effect)
        })
    }

    fn state<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        work(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state(|state| f.debug_struct("Faults").field("faults", &state.faults).finish_non_exhaustive())
    }
}
