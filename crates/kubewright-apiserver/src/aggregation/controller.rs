//! Follows APIServices and what they depend on, and checks aggregated servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{Str, Value};
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_storage::{Compacted, EventKind, KeyRange, StoreEvent, Watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::availability::{Unavailable, check};
use super::backend::Backend;
use super::front_proxy::FrontProxy;
use super::{API_SERVICES, AggregatedServer, Aggregation, registration};
use crate::registry::Registry;

/// Period of the checks of aggregated servers.
const PERIOD: Duration = Duration::from_secs(30);

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Maintains APIServices until `stop` is set.
pub(crate) async fn run(
    registry: Arc<Registry>,
    aggregation: Arc<Aggregation>,
    front_proxy: Option<FrontProxy>,
    mut stop: watch::Receiver<bool>,
) {
    let mut controller = Controller {
        registry,
        aggregation,
        front_proxy: front_proxy.map(Arc::new),
        backends: BTreeMap::new(),
        checks: JoinSet::new(),
        checked: BTreeSet::new(),
        stale: BTreeSet::new(),
    };
    let follow = async {
        // A controller that is too slow for the log starts again with a list.
        while let Err(Compacted { .. }) = controller.follow().await {}
    };
    tokio::select! {
        () = follow => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
}

/// The result of a check.
type Checked = (Str, AggregatedServer, Result<(), Unavailable>);

struct Controller {
    registry: Arc<Registry>,
    aggregation: Arc<Aggregation>,
    front_proxy: Option<Arc<FrontProxy>>,
    /// The backends of APIServices with a Service, by name.
    backends: BTreeMap<Str, Backend>,
    checks: JoinSet<Checked>,
    /// APIServices that are being checked.
    checked: BTreeSet<Str>,
    /// APIServices that changed while they were being checked.
    stale: BTreeSet<Str>,
}

impl Controller {
    /// Lists all objects, then follows their events. Returns only if events were lost.
    async fn follow(&mut self) -> Result<(), Compacted> {
        let store = self.registry.store.clone();
        let revision = store.current_revision();
        let watch = |resource: &'static str| store.watch(&KeyRange::resource(resource), revision);
        let mut definitions = watch(DEFINITIONS)?;
        let mut api_services = watch(API_SERVICES)?;
        let mut services = watch("services")?;
        let mut slices = watch("endpointslices.discovery.k8s.io")?;
        self.list();
        loop {
            tokio::select! {
                event = definitions.next() => { let event = event?; self.definition(&event).await },
                event = api_services.next() => { let event = event?; self.api_service(&event) },
                event = next_if(&mut services, !self.backends.is_empty()) => self.endpoint_changed(event?),
                event = next_if(&mut slices, !self.backends.is_empty()) => self.endpoint_changed(event?),
                Some(Ok(checked)) = self.checks.join_next() => self.finish(checked),
                () = sleep(PERIOD), if !self.backends.is_empty() => self.check_all(),
            }
        }
    }

    fn list(&mut self) {
        registration::register_all(&self.registry);
        self.backends.clear();
        for entry in self.registry.all(&KeyRange::resource(API_SERVICES)) {
            self.examine(&entry.object.tree());
        }
        self.publish();
    }

    /// A definition was written: its versions may need an APIService, or need none any more.
    async fn definition(&self, event: &StoreEvent<StoredObject>) {
        self.registry.catalog_reaches(event.revision).await;
        let definition = event.object.tree();
        let group = tree::text(&definition, &["spec", "group"]);
        let versions = tree::items(&definition, &["spec", "versions"]);
        versions
            .iter()
            .for_each(|version| registration::register(&self.registry, group, tree::text(version, &["name"])));
    }

    fn api_service(&mut self, event: &StoreEvent<StoredObject>) {
        let api_service = event.object.tree();
        if registration::is_always_managed(&api_service) {
            let text = |field| tree::text(&api_service, &["spec", field]);
            let name = api_service.name();
            // The name decides: a user may have changed group and version.
            let (version, group) = name.split_once('.').unwrap_or((text("version"), text("group")));
            registration::register(&self.registry, group, version);
        }
        match event.kind {
            EventKind::Deleted => {
                if self.backends.remove(api_service.name()).is_some() {
                    self.publish();
                }
            }
            _ => self.examine(&api_service),
        }
    }

    /// Notes the backend of an APIService, and checks it if it is new or has changed.
    fn examine(&mut self, api_service: &Value) {
        let name = Str::from(api_service.name());
        let Some(backend) = Backend::of(api_service) else {
            registration::mark_local(&self.registry, &name);
            if self.backends.remove(&name).is_some() {
                self.publish();
            }
            return;
        };
        if self.backends.get(&name) != Some(&backend) {
            self.backends.insert(name.clone(), backend);
            self.check(name);
        }
    }

    fn endpoint_changed(&mut self, _: Arc<StoreEvent<StoredObject>>) {
        self.check_all();
    }

    fn check_all(&mut self) {
        let names: Vec<Str> = self.backends.keys().cloned().collect();
        names.into_iter().for_each(|name| self.check(name));
    }

    /// Checks a server in another task, because an answer may take seconds.
    fn check(&mut self, name: Str) {
        let Some(backend) = self.backends.get(&name).cloned() else { return };
        if !self.checked.insert(name.clone()) {
            self.stale.insert(name);
            return;
        }
        let (registry, front_proxy) = (Arc::clone(&self.registry), self.front_proxy.clone());
        let former = self.aggregation.servers().get(&name).cloned();
        self.checks.spawn(async move {
            let (server, result) = check(&registry, backend, front_proxy.as_deref(), former.as_deref()).await;
            (name, server, result)
        });
    }

    fn finish(&mut self, (name, server, result): Checked) {
        self.checked.remove(&name);
        if self.stale.remove(&name) {
            self.check(name.clone());
        }
        // The APIService may have been deleted or changed during the check.
        if self.backends.get(&name) != Some(&server.backend) {
            return;
        }
        let mut servers = (*self.aggregation.servers()).clone();
        servers.insert(name.clone(), Arc::new(server));
        self.aggregation.set(servers);
        self.publish();
        match result {
            Ok(()) => registration::set_available(&self.registry, &name, "True", "Passed", "all checks passed"),
            Err(Unavailable { reason, message }) => {
                registration::set_available(&self.registry, &name, "False", reason, &message);
            }
        }
    }

    /// Updates the servers that requests are forwarded to, and discovery.
    fn publish(&self) {
        let mut servers = (*self.aggregation.servers()).clone();
        servers.retain(|name, _| self.backends.contains_key(name));
        for (name, backend) in &self.backends {
            servers.entry(name.clone()).or_insert_with(|| Arc::new(AggregatedServer::unchecked(backend)));
        }
        self.registry.set_remote_versions(servers.values().map(|server| server.version.clone()).collect());
        self.aggregation.set(servers);
    }
}

/// The next event of a watcher. While it is not needed, events are dropped as they come.
async fn next_if(
    watcher: &mut Watcher<StoredObject>,
    is_needed: bool,
) -> Result<Arc<StoreEvent<StoredObject>>, Compacted> {
    loop {
        let event = watcher.next().await?;
        if is_needed {
            return Ok(event);
        }
    }
}
