//! A page that shows the pipeline of a program live: API server → Reflector → DeltaFIFO → Indexer →
//! handlers → work queue → workers → API server.
//!
//! A [`Dashboard`] observes informers and queues. It serves a page on a loopback address, under a
//! URL with a token. The page has no build step and no dependencies: its files are in `assets`, and
//! are part of the program. It receives a snapshot four times a second as server-sent events. A
//! snapshot has the first few keys of each queue and counts of the rest, so its size depends on the
//! number of controllers and not on that of objects.
//!
//! - `observed`: the observed parts, and the latest reconciles of each controller.
//! - `pipeline`: the snapshot.
//! - `object_view`, `owners`: an object with its versions, reconciles and owner tree.
//! - `actions`: writes, which are off unless the owner of the server allows them.
//! - `recorded`: a recording instead of a running program.
//! - `server`: HTTP, and its access checks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kubewright_apiserver::ApiServer::in_memory().start().await?;
//! # let client = server.client();
//! use kubewright_cache::SharedInformerFactory;
//! use kubewright_dashboard::Dashboard;
//!
//! let factory = SharedInformerFactory::new(&client, Default::default());
//! let dashboard = Dashboard::new(&client).informers(&factory).start().await?;
//! println!("{}", dashboard.url());
//! dashboard.stop().await;
//! # Ok(()) }
//! ```

mod actions;
mod assets;
mod object_view;
mod observed;
mod owners;
mod pipeline;
mod query;
mod recorded;
mod refusal;
mod secret_fields;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kubewright_cache::SharedInformerFactory;
use kubewright_client::Client;
use kubewright_recording::Recording;
use kubewright_runtime::manager::ManagerError;
use kubewright_runtime::{ControllerHandle, Manager, ManagerOptions};
use kubewright_workqueue::{Gate, QueueView};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use observed::Observed;
pub use observed::{ObservedReconcile, ReconcileSender};
use recorded::RecordedProgram;
use server::{DashboardService, LiveProgram, ShownProgram};

/// A dashboard that is not served yet.
#[must_use = "a dashboard is served after `start`"]
pub struct Dashboard {
    client: Client,
    observed: Observed,
    address: SocketAddr,
    allows_actions: bool,
}

impl Dashboard {
    /// A dashboard of a program that uses this client. Objects are read with its rights.
    pub fn new(client: &Client) -> Self {
        Dashboard {
            client: client.clone(),
            observed: Observed::default(),
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
            allows_actions: false,
        }
    }

    /// Shows the informers of a factory.
    pub fn informers(mut self, factory: &SharedInformerFactory) -> Self {
        self.observed.factories.push(factory.clone());
        self
    }

    /// Shows a controller with its queue, and its reconciles with their reasons.
    pub fn controller(mut self, controller: ControllerHandle) -> Self {
        self.observed.controllers.push(controller);
        self
    }

    /// Shows other queues, by the names of their controllers. `queues` takes the maximum number of
    /// keys of each kind.
    pub fn queues(
        mut self,
        queues: impl Fn(usize) -> Vec<(String, QueueView<String>)> + Send + Sync + 'static,
    ) -> Self {
        self.observed.queues.push(Box::new(queues));
        self
    }

    /// Lets the page pause and step other controllers, by their names.
    pub fn gates(mut self, gates: impl Fn(&str) -> Option<Arc<Gate>> + Send + Sync + 'static) -> Self {
        self.observed.gates.push(Box::new(gates));
        self
    }

    /// Where reconciles of other controllers are reported. Reports never wait.
    pub fn reconciles(&self) -> ReconcileSender {
        self.observed.sender()
    }

    /// The address to listen on: a free port of 127.0.0.1 by default. Only loopback addresses are
    /// possible, because the page is not encrypted.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Allows the page to apply, scale, cordon and delete objects. Off by default. Meant for
    /// servers that hold nothing but tests.
    pub fn allow_actions(mut self) -> Self {
        self.allows_actions = true;
        self
    }

    /// Shows the controllers and caches of a manager, and serves the page while the manager runs.
    /// Add the controllers first. The URL is written to the log, at the level `info`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kubewright_apiserver::ApiServer::in_memory().start().await?;
    /// # let client = server.client();
    /// # let shutdown = tokio_util::sync::CancellationToken::new();
    /// use kubewright_dashboard::Dashboard;
    /// use kubewright_runtime::{Manager, ManagerOptions};
    ///
    /// let mut manager = Manager::new(&client, ManagerOptions::default());
    /// // … manager.add(controller)?
    /// Dashboard::new(&client).add_to(&mut manager)?;
    /// # shutdown.cancel();
    /// manager.run(&shutdown).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the manager has a dashboard already.
    pub fn add_to(self, manager: &mut Manager) -> Result<(), ManagerError> {
        let dashboard = self.observing(manager);
        manager.add_task("dashboard", |stop| async move { Ok(dashboard.run(&stop).await?) })?;
        Ok(())
    }

    /// Shows the controllers and caches of a manager.
    fn observing(mut self, manager: &Manager) -> Self {
        self.observed.factories.push(manager.factory().clone());
        self.observed.controllers.extend(manager.handles());
        self
    }

    /// Serves the page until `stop` is cancelled, and writes its URL to the log.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn run(self, stop: &CancellationToken) -> io::Result<()> {
        let running = self.start().await?;
        tracing::info!(url = running.url(), "dashboard");
        stop.cancelled().await;
        running.stop().await;
        Ok(())
    }

    /// Serves the page. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the address is not a loopback address, or cannot be listened on.
    pub async fn start(self) -> io::Result<RunningDashboard> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (listener, address) = listen(self.address).await?;
        let observed = self.observed.start(&tasks, &stop);
        let live = LiveProgram::new(self.client, observed, self.allows_actions);
        serve(ShownProgram::Live(live), listener, address, stop, tasks)
    }
}

/// A dashboard of a recording, with a time line.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kubewright_dashboard::RecordingDashboard;
/// use kubewright_recording::Recording;
///
/// let dashboard = RecordingDashboard::new(Recording::open("bad-run.kwrec")?).start().await?;
/// println!("{}", dashboard.url());
/// # Ok(()) }
/// ```
#[must_use = "a dashboard is served after `start`"]
pub struct RecordingDashboard {
    recording: Recording,
    address: SocketAddr,
}

impl RecordingDashboard {
    /// A dashboard of this recording.
    pub fn new(recording: Recording) -> Self {
        RecordingDashboard { recording, address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0) }
    }

    /// The address to listen on: a free port of 127.0.0.1 by default. Only loopback addresses are
    /// possible.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Serves the page. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the address is not a loopback address, or cannot be listened on.
    pub async fn start(self) -> io::Result<RunningDashboard> {
        let (listener, address) = listen(self.address).await?;
        let shown = ShownProgram::Recorded(RecordedProgram::new(self.recording));
        serve(shown, listener, address, CancellationToken::new(), TaskTracker::new())
    }
}

impl std::fmt::Debug for RecordingDashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingDashboard").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    if !address.ip().is_loopback() {
        let why = format!("the dashboard is served on loopback addresses only, and {} is none", address.ip());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn serve(
    shown: ShownProgram,
    listener: TcpListener,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
) -> io::Result<RunningDashboard> {
    let token = server::random_token()?;
    let url = format!("http://{address}/?token={token}");
    let service = DashboardService::new(shown, address, token);
    tasks.spawn(server::serve(listener, Arc::new(service), stop.clone()));
    Ok(RunningDashboard { url, stop, tasks })
}

/// The option `dashboard` of a manager.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kubewright_apiserver::ApiServer::in_memory().start().await?;
/// # let client = server.client();
/// # let shutdown = tokio_util::sync::CancellationToken::new();
/// use kubewright_dashboard::ManagerDashboard as _;
/// use kubewright_runtime::{Manager, ManagerOptions};
///
/// let options = ManagerOptions::default().dashboard(|dashboard| dashboard);
/// let manager = Manager::new(&client, options);
/// // … manager.add(controller)?
/// # shutdown.cancel();
/// manager.run(&shutdown).await?;
/// # Ok(()) }
/// ```
pub trait ManagerDashboard {
    /// Serves a dashboard of all controllers while the manager runs. `configure` sets its address
    /// and whether it allows actions. The URL is written to the log, at the level `info`.
    #[must_use]
    fn dashboard(self, configure: impl FnOnce(Dashboard) -> Dashboard + Send + 'static) -> Self;
}

impl ManagerDashboard for ManagerOptions {
    fn dashboard(self, configure: impl FnOnce(Dashboard) -> Dashboard + Send + 'static) -> Self {
        self.task_over("dashboard", |manager| {
            let dashboard = configure(Dashboard::new(manager.client()).observing(manager));
            move |stop: CancellationToken| async move { Ok(dashboard.run(&stop).await?) }
        })
    }
}

/// A dashboard that is served. Dropping it stops it; [`stop`](Self::stop) also waits.
#[derive(Debug)]
pub struct RunningDashboard {
    url: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl RunningDashboard {
    /// The URL of the page, with the token that gives access. Do not write it to logs that others
    /// can read.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Closes all connections, and waits for it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for RunningDashboard {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard").field("address", &self.address).finish_non_exhaustive()
    }
}
