//! The connection pool of a server.
//!
//! One HTTP/2 connection carries all requests until the server's stream limit is reached; then a
//! second one is opened, and so on. A server with HTTP/1.1 only gets one connection per active
//! request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::cancel::CancelSignal;
use super::connector::{Connector, Protocol};
use super::http1::Http1;
use super::http2::{Http2, OpenStream, PingOptions};
use super::tls::TlsChange;
use crate::credentials::LiveCertificate;
use crate::task::{self, BoxFuture};
use crate::transport::BoxedStream;
use crate::transport::{TransportError, TransportErrorKind};

/// Idle connections are closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of idle HTTP/1.1 connections.
const IDLE_MAX: usize = 25;
/// Interval of the janitor for idle connections and client certificate files.
const REAP_INTERVAL: Duration = Duration::from_secs(45);
/// Interval of unconditional checks of the client certificate files.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(300);

/// How long a request waits for certificate files to be reloaded.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// A caller gives up after this many new connections that were closed immediately.
const MAX_CLOSED_AT_ONCE: usize = 5;

/// The connections to a server.
pub(super) struct Pool {
    connector: Connector,
    health: PingOptions,
    state: Mutex<PoolState>,
}

struct PoolState {
    http2: Vec<Http2>,
    idle: Vec<IdleConnection>,
    /// Whether the server chose HTTP/1.1 last time, so that waiting for a shared connection is
    /// useless.
    is_http1: bool,
    /// A connection being opened for all waiters. Closed if its task ended prematurely.
    dialing: Option<watch::Receiver<Outcome>>,
    /// Incremented when all connections are abandoned; connections of an earlier generation are not
    /// reused.
    generation: u64,
    kill: watch::Sender<bool>,
    /// The janitor task.
    maintenance: Option<JoinHandle<()>>,
}

struct IdleConnection {
    connection: Http1,
    /// Whether it has carried a request before, so that the server may be closing it.
    is_reused: bool,
    since: Instant,
}

/// The result for the waiters of a connection.
type Outcome = Option<Result<(), TransportError>>;

/// A permit to send one request.
pub(super) enum RequestPermit {
    /// On a dedicated connection.
    Http1 { connection: Http1, is_reused: bool, home: PoolReturn },
    /// On a stream of a shared connection.
    Http2(OpenStream),
}

/// The pool that a connection returns to.
pub(super) struct PoolReturn {
    pool: Weak<Pool>,
    generation: u64,
}

/// A new connection.
enum Dialed {
    Http1(Http1, PoolReturn),
    Http2(Http2, PoolReturn),
}

enum NextStep {
    Take(RequestPermit),
    DialAlone,
    Wait(watch::Receiver<Outcome>),
    Settle,
}

impl Pool {
    pub(super) fn new(connector: Connector, health: PingOptions) -> Arc<Self> {
        let state = PoolState {
            http2: Vec::new(),
            idle: Vec::new(),
            is_http1: false,
            dialing: None,
            generation: 0,
            kill: watch::Sender::new(false),
            maintenance: None,
        };
        Arc::new(Pool { connector, health, state: Mutex::new(state) })
    }

    /// The connector.
    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// A permit to send one request, on an existing connection or a new one.
    ///
    /// Cancel safe: a connection that others wait for is opened nevertheless.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<RequestPermit, TransportError> {
        let mut fruitless = 0;
        let mut problem = "the server closes connections as soon as they are made";
        while fruitless < MAX_CLOSED_AT_ONCE {
            // Bound to a name, so that the lock is released before any await.
            let step = self.step();
            match step {
                NextStep::Take(lease) => return Ok(lease),
                NextStep::Settle => tokio::time::sleep(Duration::from_millis(2)).await,
                NextStep::DialAlone => match self.dial().await? {
                    Dialed::Http1(connection, home) => {
                        return Ok(RequestPermit::Http1 { connection, is_reused: false, home });
                    }
                    dialed => self.keep(dialed),
                },
                NextStep::Wait(mut dialing) => {
                    let outcome = dialing.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
                    match outcome {
                        Ok(Some(Err(error))) => return Err(error),
                        Ok(_) => fruitless += usize::from(self.connections() == 0),
                        Err(_) => {
                            problem = "what makes connections ends before it is done";
                            fruitless += 1;
                        }
                    }
                }
            }
        }
        Err(TransportError::new(TransportErrorKind::Connect, problem))
    }

    fn step(self: &Arc<Self>) -> NextStep {
        let mut state = self.state();
        self.maintain(&mut state);
        state.http2.retain_mut(|connection| !connection.is_closed());
        if let Some(opening) = state.http2.iter().find_map(Http2::open) {
            return NextStep::Take(RequestPermit::Http2(opening));
        }
        while let Some(idle) = state.idle.pop() {
            if idle.connection.is_ready() && idle.since.elapsed() < IDLE_TIMEOUT {
                let home = self.home(&state);
                return NextStep::Take(RequestPermit::Http1 {
                    connection: idle.connection,
                    is_reused: idle.is_reused,
                    home,
                });
            }
        }
        if state.is_http1 {
            return NextStep::DialAlone;
        }
        if state.http2.iter().any(Http2::is_settling) {
            return NextStep::Settle;
        }
        // If its task panicked, or ended with its runtime, the connection is opened again.
        if let Some(dialing) = state.dialing.as_ref().filter(|dialing| dialing.has_changed().is_ok()) {
            return NextStep::Wait(dialing.clone());
        }
        let (tell, dialing) = watch::channel(None);
        state.dialing = Some(dialing.clone());
        let pool = Arc::clone(self);
        task::spawn(Box::pin(async move {
            let outcome = pool.dial().await.map(|dialed| pool.keep(dialed));
            pool.state().dialing = None;
            tell.send_replace(Some(outcome));
        }));
        NextStep::Wait(dialing)
    }

    /// Opens a connection.
    fn dial(self: &Arc<Self>) -> BoxFuture<'_, Result<Dialed, TransportError>> {
        Box::pin(self.try_dial())
    }

    async fn try_dial(self: &Arc<Self>) -> Result<Dialed, TransportError> {
        self.check_identity().await;
        let (home, cancel) = {
            let state = self.state();
            (self.home(&state), CancelSignal(state.kill.subscribe()))
        };
        let (stream, protocol) = self.connector.connect(None).await?;
        Ok(match protocol {
            Protocol::Http2 => Dialed::Http2(Http2::new(stream, self.health, &cancel).await?, home),
            Protocol::Http1 => Dialed::Http1(Http1::new(stream, &cancel).await?, home),
        })
    }

    /// Adds a connection to the pool, unless its generation was abandoned.
    fn keep(&self, dialed: Dialed) {
        let mut state = self.state();
        state.is_http1 = matches!(dialed, Dialed::Http1(..));
        match dialed {
            Dialed::Http2(connection, home) if home.generation == state.generation => state.http2.push(connection),
            Dialed::Http1(connection, home) if home.generation == state.generation => {
                state.idle.push(IdleConnection { connection, is_reused: false, since: Instant::now() });
            }
            _ => {}
        }
    }

    /// A dedicated HTTP/1.1 connection, for an upgrade.
    pub(super) async fn private(self: &Arc<Self>) -> Result<Http1, TransportError> {
        self.check_identity().await;
        let cancel = CancelSignal(self.state().kill.subscribe());
        let (stream, _): (BoxedStream, _) = self.connector.connect(Some(Protocol::Http1)).await?;
        Http1::new(stream, &cancel).await
    }

    /// Reloads the client certificate, if that is due. If it changed, all connections are reopened.
    ///
    /// The files are read in a separate task, so that a cancelled caller does not lose the result.
    async fn check_identity(self: &Arc<Self>) {
        let Some(tls) = &self.connector.tls else { return };
        if tls.check_live() == TlsChange::Identity {
            self.close_all();
        }
        if tls.is_identity_due() {
            let (pool, tls) = (Arc::clone(self), Arc::clone(tls));
            let reload = async move {
                if tls.reload_identity().await == TlsChange::Identity {
                    pool.close_all();
                }
            };
            reloaded(task::spawn(Box::pin(reload))).await;
        }
    }

    /// Reloads the certificate authorities, if that is due. If they changed, new requests use new
    /// connections.
    pub(super) async fn check_authority(self: &Arc<Self>) {
        let Some(tls) = self.connector.tls.as_ref().filter(|tls| tls.is_authority_due()) else { return };
        let (pool, tls) = (Arc::clone(self), Arc::clone(tls));
        let reload = async move {
            if tls.reload_authority().await == TlsChange::Authority {
                pool.retire_all();
            }
        };
        reloaded(task::spawn(Box::pin(reload))).await;
    }

    /// Stops using the existing connections for new requests; active requests continue.
    fn retire_all(&self) {
        self.state().retire();
    }

    /// Closes all connections, cancelling active requests.
    pub(super) fn close_all(&self) {
        // Atomically, or a connection being opened would belong to both generations, or to neither.
        let kill = {
            let mut state = self.state();
            state.retire();
            std::mem::replace(&mut state.kill, watch::Sender::new(false))
        };
        kill.send_replace(true);
    }

    /// Number of connections available for new requests.
    pub(super) fn connections(&self) -> usize {
        let mut state = self.state();
        state.http2.retain_mut(|connection| !connection.is_closed());
        state.http2.len() + state.idle.iter().filter(|idle| !idle.connection.is_closed()).count()
    }

    fn home(self: &Arc<Self>, state: &PoolState) -> PoolReturn {
        PoolReturn { pool: Arc::downgrade(self), generation: state.generation }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        // Starting a task outside of a runtime panics without leaving the state inconsistent, so
        // poisoning is ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the janitor unless it is running. It ends with the pool, or with its runtime.
    fn maintain(self: &Arc<Self>, state: &mut PoolState) {
        if state.maintenance.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (pool, mut alive) = (Arc::downgrade(self), state.kill.subscribe());
        let live = self.connector.tls.as_ref().and_then(|tls| tls.live());
        let mut renewed = live.map(LiveCertificate::subscribe);
        let maintenance = task::spawn(Box::pin(async move {
            let mut identity_checked = Instant::now();
            loop {
                tokio::select! {
                    () = tokio::time::sleep(REAP_INTERVAL) => {}
                    // If the sender is dropped, so is the pool; if it was replaced, there is a new
                    // one.
                    changed = alive.changed() => if changed.is_err() && pool.strong_count() == 0 { return },
                    () = changed(&mut renewed) => {}
                }
                let Some(pool) = pool.upgrade() else { return };
                if pool.connector.tls.as_ref().is_some_and(|tls| tls.check_live() == TlsChange::Identity) {
                    pool.close_all();
                }
                if identity_checked.elapsed() >= IDENTITY_INTERVAL {
                    identity_checked = Instant::now();
                    pool.check_identity().await;
                }
                let mut state = pool.state();
                state.http2.retain_mut(|connection| !connection.is_closed() && !connection.is_idle_for(IDLE_TIMEOUT));
                state.idle.retain(|idle| !idle.connection.is_closed() && idle.since.elapsed() < IDLE_TIMEOUT);
                alive = state.kill.subscribe();
            }
        }));
        state.maintenance = Some(maintenance);
    }
}

impl PoolState {
    /// Leaves existing connections to their active requests.
    fn retire(&mut self) {
        self.generation += 1;
        self.http2.clear();
        self.idle.clear();
    }
}

/// Waits for a reload task, but not for an unresponsive file system: connections then use the known
/// files, and the task closes them if it finds a change later.
async fn reloaded(task: JoinHandle<()>) {
    // A panic of the task has been reported.
    let _ = tokio::time::timeout(RELOAD_TIMEOUT, task).await;
}

/// Waits for another certificate; pending forever if there is none.
async fn changed<T>(renewed: &mut Option<watch::Receiver<T>>) {
    let is_over = match renewed {
        Some(renewed) => renewed.changed().await.is_err(),
        None => true,
    };
    if is_over {
        *renewed = None;
        std::future::pending().await
    }
}

impl PoolReturn {
    /// Returns a connection whose response was read completely.
    pub(super) fn take_back(self, mut connection: Http1) {
        if self.pool.strong_count() == 0 || connection.is_closed() {
            return;
        }
        // The connection may still have to observe the end of the response.
        task::spawn(Box::pin(async move {
            if connection.ready().await.is_err() {
                return;
            }
            let Some(pool) = self.pool.upgrade() else { return };
            let mut state = pool.state();
            if state.generation == self.generation && state.idle.len() < IDLE_MAX {
                state.idle.push(IdleConnection { connection, is_reused: true, since: Instant::now() });
            }
        }));
    }
}
