//! One process of the operator under test: a manager with caches, handlers, an elector and a
//! controller.
//!
//! The controller mirrors each widget into a config map of the same name, and deletes the config
//! map when the widget is gone. So a cache that claims a deletion that did not happen destroys
//! something.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::ConfigMap;
use kubewright_cache::{FactoryOptions, InformerHandle, QueueKind, Recreated, ReflectorOptions};
use kubewright_client::{Api, Client};
use kubewright_core::options::{DeleteOptions, Preconditions};
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::controller::BoxError;
use kubewright_runtime::election::{LeaderElectionOptions, LeaderElector};
use kubewright_runtime::{Context, Freshness, Manager, ManagerOptions, Outcome};
use kubewright_workqueue::limiter::ItemExponential;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::network::Network;
use crate::truth::Truth;
use crate::view::{View, watch_with_all};
use crate::widget::{self, Widget};

pub const NAMESPACES: [&str; 2] = ["a", "b"];
pub const MIRROR: &str = "simulation.example.com/mirror-of";
const SIZE: &str = "size";

/// Delay until an ended process is restarted.
const RESTART: Duration = Duration::from_secs(1);

/// Maximum back-off of a failed key.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// Cache options of a process.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub streams_lists: bool,
    pub watches_each_namespace: bool,
    pub queue: QueueKind,
    pub recreated: Recreated,
    pub resync: Option<Duration>,
}

impl Setup {
    fn caches(&self) -> FactoryOptions {
        let mut reflector = ReflectorOptions::default();
        if !self.streams_lists {
            reflector = reflector.without_streaming_lists();
        }
        let mut options = FactoryOptions::default()
            .reflector(reflector)
            .queue(self.queue)
            .recreated(self.recreated)
            .transform_of::<Widget>(widget::transform());
        if self.watches_each_namespace {
            options = options.namespaces(NAMESPACES);
        }
        if let Some(period) = self.resync {
            options = options.resync_every(period);
        }
        options
    }
}

/// A replica of the operator, which is started again whenever its process ends.
pub struct Replica {
    pub network: Network,
    pub stalled: watch::Sender<bool>,
    current: Arc<Mutex<Option<Current>>>,
    task: Option<AbortOnDropHandle<()>>,
    start: Arc<dyn Fn() -> Running + Send + Sync>,
}

/// The parts of a running process that checks read.
#[derive(Clone)]
pub struct Current {
    pub informer: InformerHandle<Widget>,
    pub views: Vec<View>,
    stop: CancellationToken,
}

struct Running {
    manager: Manager,
    current: Current,
}

impl Replica {
    pub fn new(name: String, direct: Client, setup: Setup, truth: Truth) -> Self {
        let network = Network::new();
        let stalled = watch::Sender::new(false);
        let client = network.client(&direct);
        let operator = Arc::new(Operator { name, client, direct, truth });
        let start = Arc::new({
            let stalled = stalled.clone();
            move || operator.clone().start(setup, &stalled)
        });
        let mut replica = Replica { network, stalled, current: Arc::default(), task: None, start };
        replica.spawn();
        replica
    }

    pub fn current(&self) -> Option<Current> {
        self.current.lock().unwrap().clone()
    }

    /// Kills the process, whatever it is doing, and starts another one.
    pub fn crash(&mut self) {
        self.task = None;
        self.current.lock().unwrap().take();
        self.spawn();
    }

    /// Stops the process. It is restarted afterwards.
    pub fn stop_gracefully(&self) {
        if let Some(current) = self.current() {
            current.stop.cancel();
        }
    }

    /// Stops the process for good.
    pub async fn end(mut self) {
        let ended = self.current.lock().unwrap().take();
        if let Some(current) = ended {
            current.stop.cancel();
        }
        if let Some(task) = self.task.take() {
            let _ = tokio::time::timeout(Duration::from_secs(60), task).await;
        }
    }

    fn spawn(&mut self) {
        let current = self.current.clone();
        let start = self.start.clone();
        self.task = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let running = start();
                let stop = running.current.stop.clone();
                *current.lock().unwrap() = Some(running.current);
                // A manager that loses its leadership, or its caches, ends with an error.
                let _ = running.manager.run(&stop).await;
                if current.lock().unwrap().take().is_none() {
                    return;
                }
                sleep(RESTART).await;
            }
        })));
    }
}

/// The program that all processes run.
struct Operator {
    name: String,
    client: Client,
    direct: Client,
    truth: Truth,
}

impl Operator {
    fn start(self: Arc<Self>, setup: Setup, stalled: &watch::Sender<bool>) -> Running {
        let identity = format!("{}-{:x}", self.name, fastrand::u64(..));
        let mut manager = Manager::new(&self.client, ManagerOptions::default().caches(setup.caches()));
        let elector =
            LeaderElector::new(&self.client, "default", "operator", identity.clone(), LeaderElectionOptions::default());
        manager.elect(elector.expect("the defaults are valid"));
        let informer = manager.factory().informer::<Widget>();
        let views = watch_with_all(&self.name, &informer, setup.recreated, &self.truth, stalled);
        let controller = manager
            .controller::<Widget>("mirror")
            .watches::<ConfigMap>(|map| match map.annotations().get(MIRROR) {
                Some(_) => vec![map.key()],
                None => Vec::new(),
            })
            .rate_limiter(ItemExponential::new(Duration::from_millis(50), LONGEST_BACKOFF))
            .workers(2)
            .reconciling_keys(move |context| {
                let operator = self.clone();
                let identity = identity.clone();
                async move { operator.reconcile(&identity, context).await }
            });
        manager.add(controller).expect("the name is free");
        Running { manager, current: Current { informer, views, stop: CancellationToken::new() } }
    }

    async fn reconcile(&self, identity: &str, context: Context) -> Result<Outcome, BoxError> {
        let key = context.key().clone();
        self.expect_leadership(identity, &key).await?;
        let maps = context.api::<ConfigMap>(key.namespace());
        let widgets = context.cached::<Widget>()?;
        if let Some(widget) = widgets.namespace(key.namespace()).get(key.name()) {
            maps.create_or_update(key.name(), |map| {
                map.metadata.annotations.insert(MIRROR, widget.uid().into());
                map.data.insert(SIZE, widget.spec.size.to_string().into());
                Ok(())
            })
            .await?;
            self.truth.reconciled(&key, Some(widget.resource_version()));
            return Ok(Outcome::Done);
        }
        // Caches of two kinds are not equally fresh: only the server can tell that the widget is
        // deleted.
        let widgets = context.api::<Widget>(key.namespace());
        if widgets.get(key.name(), Freshness::Live).await?.is_some() {
            return Err("the cache does not show the widget yet".into());
        }
        if let Some(map) = maps.get(key.name(), Freshness::AtLeastMyWrites).await?
            && let Some(uid) = map.annotations().get(MIRROR)
        {
            self.truth.claim_deleted(&format!("{}, controller", self.name), &key, uid);
            let preconditions = Preconditions { uid: Some(map.uid().into()), ..Preconditions::default() };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            maps.delete_with(key.name(), &options).await?;
        }
        self.truth.reconciled(&key, None);
        Ok(Outcome::Done)
    }

    /// Reports a reconcile that begins while another process, or none, holds the lease.
    async fn expect_leadership(&self, identity: &str, key: &ObjectKey) -> Result<(), BoxError> {
        let lease = Api::<Lease>::namespaced(&self.direct, "default").get("operator").await?;
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if holder != identity {
            self.truth.violation(format!("{identity} reconciles {key}, but the lease is held by {holder:?}"));
        }
        Ok(())
    }
}

/// The widget size that a config map mirrors.
pub fn mirrored_size(map: &ConfigMap) -> Option<i64> {
    map.data.get(SIZE)?.parse().ok()
}
