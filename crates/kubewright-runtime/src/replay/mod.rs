//! Runs controllers against a recording: the same caches, answers, clock readings and random draws,
//! in the same order, on paused time.
//!
//! A replay passes if the controllers write the same. Otherwise it shows the first difference. It
//! has no queue and no workers, since the recording says which reconcile began when:
//!
//! - `server`: the transport. It answers lists of caches from the recorded changes, and holds all
//!   other requests until the driver releases their responses.
//! - `served_cache`: the objects of one cache, which it writes to the caches of the controllers.
//! - `driver`: goes through the entries, and compares writes.
//! - `inputs`: clock readings and random draws.
//! - `simulated`: answers to requests that were not recorded, for changed controllers.
//! - `shrink`: finds a minimal history that still fails.
//!
//! # Limits
//!
//! A reconciler is a function of its key, the caches of its manager, the answers to requests of its
//! clients, [`clock::now`](kubewright_client::clock::now) and
//! [`Context::random`](crate::Context::random). A replay cannot repeat other inputs: the system's
//! clock, other random numbers, files, statics. Requests of tasks that a reconciler spawned have no
//! reconcile, unless they run a [carried](kubewright_net::observation::carried) future. They get
//! their recorded answers, but are not compared. A read of a cache sees the generation that it saw
//! in the recording, or a later one if a concurrent reconcile has read that already: caches never
//! go back. Handlers of informers see no events after the initial list.

mod difference;
mod driver;
mod inputs;
mod served_cache;
mod server;
mod shrink;
mod simulated;

use std::path::Path;
use std::sync::Arc;

use kubewright_cache::FactoryOptions;
use kubewright_client::Client;
use kubewright_recording::{Entry, Recording, RecordingError};
use tokio_util::sync::CancellationToken;

pub use difference::{Difference, DifferenceKind, ReplayedWrite};
pub use shrink::{ShrinkOptions, shrink_by};

use crate::controller::{BoxError, ControllerError};
use crate::manager::{Manager, ManagerOptions};
use driver::Driver;
use server::ReplayServer;

/// The environment variable with a file that replaces that of [`replay!`](crate::replay!).
pub const FILE_VARIABLE: &str = "KUBEWRIGHT_REPLAY_FILE";

/// A recording with the controllers that are run against it.
///
/// ```no_run
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_runtime::{BoxError, Manager, Outcome};
/// use kubewright_runtime::replay::Replay;
///
/// fn add_controllers(manager: &mut Manager) -> Result<(), BoxError> {
///     let maps = manager.controller::<ConfigMap>("maps").reconciling(|_, _| async { Ok(Outcome::Done) });
///     manager.add(maps)?;
///     Ok(())
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let replay = Replay::open("bad-run.kwrec", add_controllers)?;
/// let outcome = replay.run()?;
/// println!("{} writes", outcome.writes.len());
/// if let Some(difference) = outcome.difference {
///     println!("{difference}");
/// }
/// # Ok(()) }
/// ```
pub struct Replay<F> {
    recording: Recording,
    add_controllers: F,
}

/// The result of a replay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReplayOutcome {
    /// Number of reconciles that were run.
    pub reconciles: usize,
    /// The writes of the controllers, in order; of [`Replay::run`] up to the difference.
    pub writes: Vec<ReplayedWrite>,
    /// The first difference from the recording.
    pub difference: Option<Difference>,
}

/// Why a replay was not possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The controllers could not be set up.
    #[error("the controllers of the replay cannot be set up")]
    SetUp(#[source] BoxError),
    /// A controller could not start.
    #[error("a controller of the replay cannot start")]
    Start(#[from] ControllerError),
    /// The controllers watch something that the recording does not have.
    #[error("the recording has no cache of {0}: the recorded program did not watch it")]
    NoCache(String),
    /// The recording has reconciles of other controllers only.
    #[error("the recording has no reconcile of {}; it has those of {}", .wanted.join(", "), .recorded.join(", "))]
    NoReconciles {
        /// The names of the controllers.
        wanted: Vec<String>,
        /// The names in the recording.
        recorded: Vec<String>,
    },
    /// The runtime of the replay could not be created.
    #[error("the runtime of the replay cannot be created")]
    Runtime(#[source] std::io::Error),
}

impl<F> Replay<F>
where
    F: Fn(&mut Manager) -> Result<(), BoxError> + Sync,
{
    /// Reads a recording. `add_controllers` adds the controllers to a manager, as the recorded
    /// program does. They must take their client from the manager or from their context.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: impl AsRef<Path>, add_controllers: F) -> Result<Self, ReplayError> {
        Ok(Replay::of(Recording::open(path)?, add_controllers))
    }

    /// A replay of a recording in memory.
    pub fn of(recording: Recording, add_controllers: F) -> Self {
        Replay { recording, add_controllers }
    }

    /// Runs the controllers in a runtime of its own, whose clock is paused. Can be called anywhere,
    /// also within another runtime.
    ///
    /// # Errors
    /// If the controllers cannot be set up, or watch what was not recorded. A difference is no
    /// error, but part of the outcome.
    pub fn run(&self) -> Result<ReplayOutcome, ReplayError> {
        self.run_recording(&self.recording, false)
    }

    /// Like [`run`](Self::run), and goes on after differences, to check what a changed controller
    /// does with the recorded caches.
    ///
    /// Requests that were not recorded are answered as a server would: a create of an existing name
    /// with 409, other writes with their object, reads with the objects of the caches. Caches do
    /// not show these writes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn explore(&self) -> Result<ReplayOutcome, ReplayError> {
        self.run_recording(&self.recording, true)
    }

    fn run_recording(&self, recording: &Recording, goes_on: bool) -> Result<ReplayOutcome, ReplayError> {
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .map_err(ReplayError::Runtime)?;
            runtime.block_on(run(recording.shared_entries(), &self.add_controllers, goes_on))
        };
        // A runtime cannot be started within another one.
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

async fn run(
    entries: Arc<Vec<Entry>>,
    add_controllers: &(dyn Fn(&mut Manager) -> Result<(), BoxError> + Sync),
    goes_on: bool,
) -> Result<ReplayOutcome, ReplayError> {
    let server = ReplayServer::new(entries.clone());
    let client = Client::over(server.clone()).json_only();
    let caches = FactoryOptions::default().observer(Arc::new(server.clone()));
    let mut manager = Manager::new(&client, ManagerOptions::default().caches(caches));
    add_controllers(&mut manager).map_err(ReplayError::SetUp)?;
    let client = manager.client().clone();
    let stop = CancellationToken::new();
    let _stop_on_end = stop.clone().drop_guard();
    let mut controllers = Vec::new();
    for controller in manager.take_controllers() {
        let started = tokio::select! {
            biased;
            name = server.first_unknown_cache() => return Err(ReplayError::NoCache(name)),
            started = controller.replayed(client.clone(), &stop) => started?,
        };
        controllers.push(started);
    }
    let known = |name: &str| controllers.iter().any(|controller| controller.name() == name);
    let mut recorded: Vec<String> = entries
        .iter()
        .filter_map(|entry| if let Entry::Began(began) = entry { Some(began.controller.clone()) } else { None })
        .collect();
    recorded.sort_unstable();
    recorded.dedup();
    if !recorded.is_empty() && !recorded.iter().any(|name| known(name)) {
        let wanted = controllers.iter().map(|controller| controller.name().to_owned()).collect();
        return Err(ReplayError::NoReconciles { wanted, recorded });
    }
    let outcome = Driver::new(&entries, &controllers, &server, goes_on).run().await;
    drop(controllers);
    drop(manager);
    Ok(outcome)
}

impl<F> std::fmt::Debug for Replay<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("entries", &self.recording.entries().len()).finish_non_exhaustive()
    }
}

/// Runs the replay of [`replay!`](crate::replay!); panics with the first difference.
#[doc(hidden)]
#[track_caller]
pub fn assert_replay(path: &Path, add_controllers: impl Fn(&mut Manager) -> Result<(), BoxError> + Sync) {
    let given = std::env::var_os(FILE_VARIABLE);
    let path = given.as_deref().map_or(path, Path::new);
    let outcome = Replay::open(path, add_controllers).and_then(|replay| replay.run());
    match outcome {
        Ok(ReplayOutcome { difference: None, .. }) => {}
        Ok(ReplayOutcome { difference: Some(difference), .. }) => {
            panic!("the replay of {} differs from the recording\n{difference}", path.display())
        }
        Err(error) => panic!("the replay of {} failed: {}", path.display(), crate::error::chain(&error)),
    }
}

/// Replays a recording, whose path is relative to the manifest of the crate. Panics with the first
/// difference if the controllers write something else than recorded.
///
/// ```no_run
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_runtime::{BoxError, Manager, Outcome};
/// # fn add_controllers(manager: &mut Manager) -> Result<(), BoxError> {
/// #     manager.add(manager.controller::<ConfigMap>("maps").reconciling(|_, _| async { Ok(Outcome::Done) }))?;
/// #     Ok(())
/// # }
/// #[test]
/// fn the_bad_run_is_repeated() {
///     kubewright_runtime::replay!("tests/bad-run.kwrec", add_controllers);
/// }
/// ```
///
/// The environment variable `KUBEWRIGHT_REPLAY_FILE` names another file, for `kubewright replay
/// --shrink`.
#[macro_export]
macro_rules! replay {
    ($file:expr, $add_controllers:expr $(,)?) => {
        $crate::replay::assert_replay(&::std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($file), $add_controllers)
    };
}
