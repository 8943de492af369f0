//! The server, the replicas, and the steps of a history.

use std::time::Duration;

use fastrand::Rng;
use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_cache::{QueueKind, Recreated};
use kubewright_client::{Api, Error};
use kubewright_core::options::ListOptions;
use kubewright_core::{AllNamespaces, DynamicObject, GroupVersionResource, NamespaceScope, Object};
use kubewright_runtime::custom::install;
use tokio::time::sleep;

use crate::network::{Cut, Outage};
use crate::process::{MIRROR, NAMESPACES, Replica, Setup};
use crate::truth::Truth;
use crate::widget::{self, Size};

const REPLICAS: usize = 2;
const NAMES: usize = 4;

pub struct World {
    pub server: RunningServer,
    pub replicas: Vec<Replica>,
    pub truth: Truth,
    /// Whether some fault of this part of the history justifies a long wait before the next
    /// attempt.
    pub may_wait_long: bool,
    dice: Rng,
}

impl World {
    pub async fn new(seed: u64, truth: &Truth) -> Self {
        let mut dice = Rng::with_seed(seed);
        let server = ApiServer::in_memory().start().await.expect("a server in memory needs nothing");
        for name in NAMESPACES {
            let mut namespace = Namespace::default();
            namespace.set_name(name);
            Api::all(&server.client()).create(&namespace).await.expect("the namespace is new");
        }
        let setup = Setup {
            streams_lists: dice.bool(),
            watches_each_namespace: dice.bool(),
            queue: if dice.bool() { QueueKind::InOrder } else { QueueKind::DeltaFifo },
            recreated: if dice.bool() { Recreated::DeletedThenAdded } else { Recreated::Updated },
            resync: dice.bool().then_some(Duration::from_secs(7)),
        };
        truth.trace(format!("{setup:?}"));
        let mut world = World { server, replicas: Vec::new(), truth: truth.clone(), may_wait_long: false, dice };
        world.install_definition().await;
        for _ in 0..world.dice.usize(0..6) {
            world.put().await;
        }
        for number in 0..REPLICAS {
            let name = format!("replica {number}");
            world.replicas.push(Replica::new(name, world.server.client(), setup, truth.clone()));
        }
        world
    }

    /// Takes a random step.
    pub async fn step(&mut self) {
        match self.dice.u32(0..100) {
            0..30 => self.put().await,
            30..40 => self.delete().await,
            40..45 => self.recreate().await,
            45..50 => self.disturb_mirror().await,
            50..57 => self.begin_outage(),
            57..62 => self.heal_one(),
            62..69 => self.cut(),
            69..72 => self.stall(),
            72..75 => self.act("compact", |world| world.server.faults().compact()),
            75..77 => self.act("restart the server", |world| world.server.faults().restart()),
            77..80 => self.revoke(),
            80..82 => self.freeze().await,
            82..84 => self.crash(),
            84..85 => self.stop_gracefully(),
            85..86 => self.delete_definition().await,
            86..87 => self.install_definition().await,
            _ => {}
        }
        let pause = match self.dice.u32(0..10) {
            0..4 => Duration::ZERO,
            4..8 => Duration::from_millis(self.dice.u64(0..2_000)),
            _ => Duration::from_millis(self.dice.u64(0..30_000)),
        };
        sleep(pause).await;
    }

    /// Ends all faults.
    pub async fn heal(&mut self) {
        self.truth.trace("heal everything".to_owned());
        for replica in &self.replicas {
            replica.network.heal();
            replica.stalled.send_replace(false);
        }
        self.install_definition().await;
    }

    /// Starts a part of the history without faults so far.
    pub fn begin(&mut self) {
        self.may_wait_long = false;
    }

    /// All widgets on the server; none if their kind is not defined.
    pub async fn widgets(&self) -> Vec<DynamicObject> {
        match self.api(AllNamespaces).list(&ListOptions::default()).await {
            Ok(list) => list.into_iter().collect(),
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => panic!("the server itself has no faults: {error}"),
        }
    }

    /// All mirrors on the server.
    pub async fn mirrors(&self) -> Vec<ConfigMap> {
        let maps = Api::<ConfigMap>::all(&self.server.client()).list(&ListOptions::default()).await;
        let maps = maps.expect("the server itself has no faults");
        maps.into_iter().filter(|map| map.annotations().get(MIRROR).is_some()).collect()
    }

    fn api(&self, namespace: impl Into<NamespaceScope>) -> Api<DynamicObject> {
        let resource = GroupVersionResource::new(widget::GROUP, "v1", "widgets");
        self.server.client().dynamic(resource).namespace(namespace)
    }

    fn act(&self, what: &str, action: impl FnOnce(&Self)) {
        self.truth.trace(what.to_owned());
        action(self);
    }

    fn any_name(&mut self) -> (&'static str, String) {
        let namespace = NAMESPACES[self.dice.usize(..NAMESPACES.len())];
        (namespace, format!("w{}", self.dice.usize(..NAMES)))
    }

    fn any_size(&mut self) -> Size {
        match self.dice.u32(0..10) {
            0..7 => Size::Good(self.dice.i64(100..1000)),
            7 => Size::Untransformable,
            8 => Size::Panicking,
            _ => Size::Undecodable,
        }
    }

    fn any_replica(&mut self) -> usize {
        self.dice.usize(..self.replicas.len())
    }

    async fn put(&mut self) {
        let (namespace, name) = self.any_name();
        let size = self.any_size();
        self.truth.trace(format!("put {namespace}/{name} {size:?}"));
        let api = self.api(namespace);
        let result = match api.get(&name).await {
            Ok(mut found) => {
                widget::set_size(&mut found, size);
                api.update(&found).await
            }
            Err(error) if error.is_not_found() => api.create(&widget::widget(namespace, &name, size)).await,
            Err(error) => Err(error),
        };
        without_definition(result);
    }

    async fn delete(&mut self) {
        let (namespace, name) = self.any_name();
        let api = self.api(namespace);
        if let Ok(found) = api.get(&name).await {
            self.truth.trace(format!("delete {namespace}/{name} {}", found.uid()));
            self.truth.delete(found.uid());
            without_definition(api.delete(&name).await);
        }
    }

    async fn recreate(&mut self) {
        let (namespace, name) = self.any_name();
        let size = self.any_size();
        let api = self.api(namespace);
        if let Ok(found) = api.get(&name).await {
            self.truth.trace(format!("recreate {namespace}/{name} {} {size:?}", found.uid()));
            self.truth.delete(found.uid());
            without_definition(api.delete(&name).await);
            without_definition(api.create(&widget::widget(namespace, &name, size)).await);
        }
    }

    /// Deletes or changes a mirror without the controller.
    async fn disturb_mirror(&mut self) {
        let mirrors = self.mirrors().await;
        if mirrors.is_empty() {
            return;
        }
        let mut mirror = mirrors[self.dice.usize(..mirrors.len())].clone();
        self.truth.trace(format!("disturb the mirror {}", mirror.key()));
        let api = Api::<ConfigMap>::namespaced(&self.server.client(), mirror.namespace());
        let result = if self.dice.bool() {
            api.delete(mirror.name()).await.map(drop)
        } else {
            mirror.data.insert("size", "0".into());
            api.update(&mirror).await.map(drop)
        };
        // The controller may have been faster.
        if let Err(error) = result {
            assert!(error.is_not_found() || error.is_conflict(), "the server itself has no faults: {error}");
        }
    }

    fn begin_outage(&mut self) {
        let replica = self.any_replica();
        let outage = match self.dice.u32(0..10) {
            0..2 => Outage::Refused,
            2 => Outage::Reset,
            3 => Outage::PlainNotFound,
            number => Outage::Answer([403, 404, 410, 429, 500, 503][number as usize - 4]),
        };
        self.truth.trace(format!("outage of replica {replica}: {outage:?}"));
        self.may_wait_long |= !outage.is_server_down();
        let network = &self.replicas[replica].network;
        network.set_outage(Some(outage));
        // A server that goes down closes its connections.
        if self.dice.bool() {
            network.cut(Cut::Reset);
        }
    }

    fn heal_one(&mut self) {
        let replica = self.any_replica();
        self.truth.trace(format!("heal replica {replica}"));
        self.replicas[replica].network.heal();
    }

    fn cut(&mut self) {
        let replica = self.any_replica();
        let cut = match self.dice.u32(0..8) {
            0..2 => Cut::Reset,
            2 => Cut::End,
            3 => Cut::InTheMiddle,
            number => Cut::Error([403, 410, 429, 500][number as usize - 4]),
        };
        self.truth.trace(format!("cut the streams of replica {replica}: {cut:?}"));
        self.may_wait_long |= matches!(cut, Cut::Error(403 | 429));
        self.replicas[replica].network.cut(cut);
    }

    fn stall(&mut self) {
        let replica = self.any_replica();
        let is_handler = self.dice.bool();
        self.truth.trace(format!("stall the {} of replica {replica}", if is_handler { "handlers" } else { "streams" }));
        if is_handler {
            self.replicas[replica].stalled.send_replace(true);
        } else {
            self.replicas[replica].network.set_stalled(true);
        }
    }

    fn revoke(&mut self) {
        let replica = self.any_replica();
        let is_revoked = self.dice.bool();
        self.truth.trace(format!("replica {replica} may {} namespace b", if is_revoked { "not read" } else { "read" }));
        self.may_wait_long |= is_revoked;
        let network = &self.replicas[replica].network;
        network.set_revoked("b", is_revoked);
        network.cut(Cut::End);
    }

    /// Lets time pass while no process runs, as on a suspended machine.
    async fn freeze(&mut self) {
        let time = Duration::from_millis(self.dice.u64(0..60_000));
        self.truth.trace(format!("freeze for {time:?}"));
        tokio::time::advance(time).await;
    }

    fn crash(&mut self) {
        let replica = self.any_replica();
        self.truth.trace(format!("crash replica {replica}"));
        self.replicas[replica].crash();
    }

    fn stop_gracefully(&mut self) {
        let replica = self.any_replica();
        self.truth.trace(format!("stop replica {replica}"));
        self.replicas[replica].stop_gracefully();
    }

    /// Deletes the kind with all of its objects.
    async fn delete_definition(&mut self) {
        self.truth.trace("delete the definition".to_owned());
        self.may_wait_long = true;
        for widget in self.widgets().await {
            self.truth.delete(widget.uid());
        }
        without_definition(self.definitions().delete(widget::DEFINITION).await);
    }

    async fn install_definition(&mut self) {
        while self.definitions().get(widget::DEFINITION).await.is_ok_and(|found| found.is_being_deleted()) {
            sleep(Duration::from_millis(50)).await;
        }
        let installed = install(&self.server.client(), &widget::definition(), "simulation").await;
        installed.expect("the server itself has no faults");
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(&self.server.client())
    }
}

/// A request may fail because the kind is undefined or terminating, and for no other reason.
fn without_definition<R>(result: Result<R, Error>) {
    if let Err(error) = result {
        let is_expected =
            error.is_not_found() || error.is_method_not_allowed() || error.is_conflict() || error.is_forbidden();
        assert!(is_expected, "the server itself has no faults: {error}");
    }
}
