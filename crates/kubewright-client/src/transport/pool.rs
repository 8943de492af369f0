//! The connections to a server: as few as will do.
//!
//! One HTTP/2 connection carries all requests until the server takes no more streams on it; then there is a second,
//! and so on. A server that only speaks HTTP/1.1 gets a connection for each request that is under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connector::{Connector, Protocol};
use super::http1::Http1;
use super::http2::{Health, Http2, Opening};
use super::killed::Killed;
use super::stream::BoxedStream;
use super::tls::Change;
use super::{TransportError, TransportErrorKind};
use crate::credentials::LiveCertificate;
use crate::task::{self, BoxFuture};

/// A connection that nobody uses is closed after this time.
const IDLE: Duration = Duration::from_secs(90);
/// So many unused HTTP/1.1 connections are kept.
const IDLE_MAX: usize = 25;
/// How often unused connections and the files of the client certificate are looked at.
const REAP_INTERVAL: Duration = Duration::from_secs(45);
/// How often the files of the client certificate are looked at without a reason.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(300);

/// How long a request waits for files of certificates to be read again.
const RELOAD_WAIT: Duration = Duration::from_secs(1);

/// A caller sees so many new connections closed at once before it gives up.
const FRUITLESS_MAX: usize = 5;

/// The connections to a server.
pub(super) struct Pool {
    connector: Connector,
    health: Health,
    state: Mutex<State>,
}

struct State {
    http2: Vec<Http2>,
    idle: Vec<Idle>,
    /// Whether the server chose HTTP/1.1 the last time, so that waiting for a shared connection is of no use.
    is_http1: bool,
    /// A connection that is being made for all who wait. Closed if its task ended before its time.
    dialing: Option<watch::Receiver<Outcome>>,
    /// Counts how often all connections were given up; one of an earlier time is not used again.
    generation: u64,
    kill: watch::Sender<bool>,
    /// The task that looks after unused connections.
    maintenance: Option<JoinHandle<()>>,
}

struct Idle {
    connection: Http1,
    /// Whether it has carried a request before, so that the server may be about to close it.
    is_reused: bool,
    since: Instant,
}

/// What has become of a connection that several wait for.
type Outcome = Option<Result<(), TransportError>>;

/// The right to send one request.
pub(super) enum Lease {
    /// On a connection of its own.
    Http1 { connection: Http1, is_reused: bool, home: Home },
    /// On a stream of a shared connection.
    Http2(Opening),
}

/// Where a connection goes back to.
pub(super) struct Home {
    pool: Weak<Pool>,
    generation: u64,
}

/// A new connection.
enum Dialed {
    Http1(Http1, Home),
    Http2(Http2, Home),
}

enum Step {
    Take(Lease),
    DialAlone,
    Wait(watch::Receiver<Outcome>),
    Settle,
}

impl Pool {
    pub(super) fn new(connector: Connector, health: Health) -> Arc<Self> {
        let state = State {
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

    /// What makes the connections.
    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// The right to send one request, on an old connection or a new one.
    ///
    /// Cancel safe: a connection that others wait for as well is made all the same.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, TransportError> {
        let mut fruitless = 0;
        let mut problem = "the server closes connections as soon as they are made";
        while fruitless < FRUITLESS_MAX {
            // Bound to a name, so that the lock is released before anything is awaited.
            let step = self.step();
            match step {
                Step::Take(lease) => return Ok(lease),
                Step::Settle => tokio::time::sleep(Duration::from_millis(2)).await,
                Step::DialAlone => match self.dial().await? {
                    Dialed::Http1(connection, home) => return Ok(Lease::Http1 { connection, is_reused: false, home }),
                    dialed => self.keep(dialed),
                },
                Step::Wait(mut dialing) => {
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

    fn step(self: &Arc<Self>) -> Step {
        let mut state = self.state();
        self.maintain(&mut state);
        state.http2.retain_mut(|connection| !connection.is_closed());
        if let Some(opening) = state.http2.iter().find_map(Http2::open) {
            return Step::Take(Lease::Http2(opening));
        }
        while let Some(idle) = state.idle.pop() {
            if idle.connection.is_ready() && idle.since.elapsed() < IDLE {
                let home = self.home(&state);
                return Step::Take(Lease::Http1 { connection: idle.connection, is_reused: idle.is_reused, home });
            }
        }
        if state.is_http1 {
            return Step::DialAlone;
        }
        if state.http2.iter().any(Http2::is_settling) {
            return Step::Settle;
        }
        // One whose task panicked, or ended with its runtime, is made again.
        if let Some(dialing) = state.dialing.as_ref().filter(|dialing| dialing.has_changed().is_ok()) {
            return Step::Wait(dialing.clone());
        }
        let (tell, dialing) = watch::channel(None);
        state.dialing = Some(dialing.clone());
        let pool = Arc::clone(self);
        task::spawn(Box::pin(async move {
            let outcome = pool.dial().await.map(|dialed| pool.keep(dialed));
            pool.state().dialing = None;
            tell.send_replace(Some(outcome));
        }));
        Step::Wait(dialing)
    }

    /// Makes a connection.
    fn dial(self: &Arc<Self>) -> BoxFuture<'_, Result<Dialed, TransportError>> {
        Box::pin(self.try_dial())
    }

    async fn try_dial(self: &Arc<Self>) -> Result<Dialed, TransportError> {
        self.check_identity().await;
        let (home, killed) = {
            let state = self.state();
            (self.home(&state), Killed(state.kill.subscribe()))
        };
        let (stream, protocol) = self.connector.connect(None).await?;
        Ok(match protocol {
            Protocol::Http2 => Dialed::Http2(Http2::new(stream, self.health, &killed).await?, home),
            Protocol::Http1 => Dialed::Http1(Http1::new(stream, &killed).await?, home),
        })
    }

    /// Puts a connection where requests find it, unless all of its time have been given up.
    fn keep(&self, dialed: Dialed) {
        let mut state = self.state();
        state.is_http1 = matches!(dialed, Dialed::Http1(..));
        match dialed {
            Dialed::Http2(connection, home) if home.generation == state.generation => state.http2.push(connection),
            Dialed::Http1(connection, home) if home.generation == state.generation => {
                state.idle.push(Idle { connection, is_reused: false, since: Instant::now() });
            }
            _ => {}
        }
    }

    /// A connection of its own that speaks HTTP/1.1, for a request that will keep it.
    pub(super) async fn private(self: &Arc<Self>) -> Result<Http1, TransportError> {
        self.check_identity().await;
        let killed = Killed(self.state().kill.subscribe());
        let (stream, _): (BoxedStream, _) = self.connector.connect(Some(Protocol::Http1)).await?;
        Http1::new(stream, &killed).await
    }

    /// Looks at the client certificate, if that is due. With another one, all connections are made
    /// anew.
    ///
    /// The files are read in a task of their own, so that a caller who gives up does not lose what
    /// was read.
    async fn check_identity(self: &Arc<Self>) {
        let Some(tls) = &self.connector.tls else { return };
        if tls.check_live() == Change::Identity {
            self.close_all();
        }
        if tls.is_identity_due() {
            let (pool, tls) = (Arc::clone(self), Arc::clone(tls));
            let reload = async move {
                if tls.reload_identity().await == Change::Identity {
                    pool.close_all();
                }
            };
            reloaded(task::spawn(Box::pin(reload))).await;
        }
    }

    /// Looks at the file of authorities, if that is due. With other ones, new requests use new
    /// connections.
    pub(super) async fn check_authority(self: &Arc<Self>) {
        let Some(tls) = self.connector.tls.as_ref().filter(|tls| tls.is_authority_due()) else { return };
        let (pool, tls) = (Arc::clone(self), Arc::clone(tls));
        let reload = async move {
            if tls.reload_authority().await == Change::Authority {
                pool.retire_all();
            }
        };
        reloaded(task::spawn(Box::pin(reload))).await;
    }

    /// Uses no present connection for new requests; those under way go on.
    fn retire_all(&self) {
        self.state().retire();
    }

    /// Closes all connections, with what is under way on them.
    pub(super) fn close_all(&self) {
        // At once, or a connection that is made meanwhile would belong to both times, or to neither.
        let kill = {
            let mut state = self.state();
            state.retire();
            std::mem::replace(&mut state.kill, watch::Sender::new(false))
        };
        kill.send_replace(true);
    }

    /// How many connections there are that new requests could use.
    pub(super) fn connections(&self) -> usize {
        let mut state = self.state();
        state.http2.retain_mut(|connection| !connection.is_closed());
        state.http2.len() + state.idle.iter().filter(|idle| !idle.connection.is_closed()).count()
    }

    fn home(self: &Arc<Self>, state: &State) -> Home {
        Home { pool: Arc::downgrade(self), generation: state.generation }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A task cannot be started outside of a runtime, which panics and leaves nothing half done: it must not be the end of all that
        // is asked afterwards.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task that looks after unused connections, unless it runs. It ends with the pool, or with its runtime.
    fn maintain(self: &Arc<Self>, state: &mut State) {
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
                    // When the sender is gone, the pool is; when it has been replaced, there is a new one.
                    changed = alive.changed() => if changed.is_err() && pool.strong_count() == 0 { return },
                    () = changed(&mut renewed) => {}
                }
                let Some(pool) = pool.upgrade() else { return };
                if pool.connector.tls.as_ref().is_some_and(|tls| tls.check_live() == Change::Identity) {
                    pool.close_all();
                }
                if identity_checked.elapsed() >= IDENTITY_INTERVAL {
                    identity_checked = Instant::now();
                    pool.check_identity().await;
                }
                let mut state = pool.state();
                state.http2.retain_mut(|connection| !connection.is_closed() && !connection.is_idle_for(IDLE));
                state.idle.retain(|idle| !idle.connection.is_closed() && idle.since.elapsed() < IDLE);
                alive = state.kill.subscribe();
            }
        }));
        state.maintenance = Some(maintenance);
    }
}

impl State {
    /// Leaves present connections to what is under way on them.
    fn retire(&mut self) {
        self.generation += 1;
        self.http2.clear();
        self.idle.clear();
    }
}

/// Waits for a task that reads files, but not for a file system that does not answer: connections
/// are then made with what is known, and the task closes them if it finds something else later.
async fn reloaded(task: JoinHandle<()>) {
    // A panic in the task has been reported.
    let _ = tokio::time::timeout(RELOAD_WAIT, task).await;
}

/// Waits for another certificate, for ever if there is none that changes.
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

impl Home {
    /// Takes a connection back whose answer has been read to the end.
    pub(super) fn take_back(self, mut connection: Http1) {
        if self.pool.strong_count() == 0 || connection.is_closed() {
            return;
        }
        // The connection may still have to see the end of the answer for itself.
        task::spawn(Box::pin(async move {
            if connection.ready().await.is_err() {
                return;
            }
            let Some(pool) = self.pool.upgrade() else { return };
            let mut state = pool.state();
            if state.generation == self.generation && state.idle.len() < IDLE_MAX {
                state.idle.push(Idle { connection, is_reused: true, since: Instant::now() });
            }
        }));
    }
}
