//! An in-process cluster.

use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use kubewright_api::core::v1::{Container, Event, Pod, PodSpec, PodTemplateSpec};
use kubewright_apiserver::{ApiServer, Faults, RunningServer};
use kubewright_client::{Api, Client};
use kubewright_controllers::{ControllerActivity, ControllerSet, MetricsServer, NodeOptions, RunningControllers};
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::{ListOptions, Patch};
use kubewright_core::{Kind, Map, Namespaced, Object, Str};
use tokio::time::{Instant, sleep};

/// A server with controllers and nodes.
pub struct Cluster {
    server: RunningServer,
    controllers: RunningControllers,
    pub client: Client,
}

impl Cluster {
    pub async fn with_nodes(count: u32) -> Self {
        Self::new(NodeOptions::default().count(count)).await
    }

    pub async fn new(options: NodeOptions) -> Self {
        Self::over(ApiServer::in_memory(), options).await
    }

    pub async fn over(server: ApiServer, options: NodeOptions) -> Self {
        let server = server.start().await.unwrap();
        let client = server.client();
        let controllers = ControllerSet::new(&client).nodes(options).start();
        Cluster { server, controllers, client }
    }

    /// Serves the resource metrics of the pods.
    pub async fn serve_metrics(&self) {
        let metrics = MetricsServer::new(self.controllers.context());
        self.server.connect_in_process(MetricsServer::AUTHORITY, metrics);
        MetricsServer::register(&self.client).await.unwrap();
    }

    /// The activity of each controller.
    pub fn activity(&self) -> Vec<ControllerActivity> {
        self.controllers.context().activity().controllers()
    }

    pub fn faults(&self) -> Faults {
        self.server.faults()
    }

    pub fn api<T: Kind<Scope = Namespaced>>(&self) -> Api<T> {
        Api::namespaced(&self.client, "default")
    }

    pub async fn create<T: Kind<Scope = Namespaced>>(&self, object: &T) -> T {
        self.api().create(object).await.unwrap()
    }

    pub async fn get<T: Kind<Scope = Namespaced>>(&self, name: &str) -> T {
        self.api().get(name).await.unwrap()
    }

    pub async fn patch<T: Kind<Scope = Namespaced>>(&self, name: &str, patch: &str) -> T {
        self.api().patch(name, Patch::Strategic(patch.into())).await.unwrap()
    }

    pub async fn list<T: Kind<Scope = Namespaced>>(&self) -> Vec<T> {
        self.api().list(&ListOptions::default()).await.unwrap().items
    }

    /// Pods that are not terminating.
    pub async fn pods(&self) -> Vec<Pod> {
        let pods: Vec<Pod> = self.list().await;
        pods.into_iter().filter(|pod| !pod.is_being_deleted()).collect()
    }

    /// Waits until the object meets the condition.
    pub async fn until<T: Kind<Scope = Namespaced> + std::fmt::Debug>(
        &self,
        name: &str,
        holds: impl Fn(&T) -> bool,
    ) -> T {
        let start = Instant::now();
        loop {
            let object = self.api::<T>().get_opt(name).await.unwrap();
            if let Some(object) = object.as_ref().filter(|object| holds(object)) {
                return object.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(3600), "{name} is still {object:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the non-terminating pods meet the condition.
    pub async fn until_pods(&self, holds: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        let start = Instant::now();
        loop {
            let pods = self.pods().await;
            if holds(&pods) {
                return pods;
            }
            assert!(start.elapsed() < Duration::from_secs(3600), "pods are still {pods:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the condition holds for all pods, including terminating ones.
    pub async fn until_all_pods(&self, holds: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        let start = Instant::now();
        loop {
            let pods: Vec<Pod> = self.list().await;
            if holds(&pods) {
                return pods;
            }
            assert!(start.elapsed() < Duration::from_secs(3600), "pods are still {pods:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for an event of a kind of objects with this reason.
    pub async fn until_told(&self, kind: &str, reason: &str) -> Event {
        self.until_event(|event| {
            event.involved_object.kind.as_deref() == Some(kind) && event.reason.as_deref() == Some(reason)
        })
        .await
    }

    /// Waits for a matching event.
    pub async fn until_event(&self, is_such: impl Fn(&Event) -> bool) -> Event {
        let start = Instant::now();
        loop {
            let events: Vec<Event> = self.list().await;
            if let Some(event) = events.iter().find(|event| is_such(event)) {
                return event.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(3600), "there are {events:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is deleted.
    pub async fn until_gone<T: Kind<Scope = Namespaced>>(&self, name: &str) {
        let start = Instant::now();
        while self.api::<T>().get_opt(name).await.unwrap().is_some() {
            assert!(start.elapsed() < Duration::from_secs(3600), "{name} is still there");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the controllers, runs `change`, and starts them again.
    pub async fn while_away(self, options: NodeOptions, happens: impl AsyncFnOnce(&Client)) -> Self {
        let Cluster { server, controllers, client } = self;
        controllers.stop().await.unwrap();
        happens(&client).await;
        let controllers = ControllerSet::new(&client).nodes(options).start();
        Cluster { server, controllers, client }
    }

    /// Stops the controllers only, and returns the server.
    pub async fn stop_controllers(self) -> RunningServer {
        self.controllers.stop().await.unwrap();
        self.server
    }

    pub async fn stop(self) {
        self.controllers.stop().await.unwrap();
        self.server.stop().await;
    }
}

/// A template with pods labelled `app`.
pub fn template(app: &str, image: &str) -> PodTemplateSpec {
    let container = Container { name: "main".into(), image: Some(image.into()), ..Default::default() };
    let mut template = PodTemplateSpec::default();
    template.metadata.labels = labels(app);
    template.spec = Some(PodSpec { containers: [container].into(), ..Default::default() });
    template
}

pub fn labels(app: &str) -> Map<Str> {
    Map::from([("app", Str::from(app))])
}

pub fn replica_set(name: &str, replicas: i32) -> ReplicaSet {
    let mut set = ReplicaSet::default();
    set.metadata.name = Some(name.into());
    set.spec = Some(ReplicaSetSpec {
        replicas: Some(replicas),
        selector: LabelSelector { match_labels: labels(name), ..Default::default() },
        template: Some(template(name, "one:1").into()),
        ..Default::default()
    });
    set
}

pub fn deployment(name: &str, replicas: i32) -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some(name.into());
    deployment.spec = Some(DeploymentSpec {
        replicas: Some(replicas),
        selector: LabelSelector { match_labels: labels(name), ..Default::default() },
        template: template(name, "one:1"),
        ..Default::default()
    });
    deployment
}

/// Whether a deployment has rolled out, as `kubectl rollout status` sees it.
pub fn is_rolled_out(deployment: &Deployment) -> bool {
    let (Some(spec), Some(status)) = (&deployment.spec, &deployment.status) else { return false };
    let wanted = spec.replicas.unwrap_or(1);
    status.observed_generation == deployment.generation()
        && status.replicas.unwrap_or_default() == wanted
        && status.updated_replicas.unwrap_or_default() == wanted
        && status.available_replicas.unwrap_or_default() == wanted
}

/// Whether a replica set has this many ready pods and its status says so.
pub fn has_ready(set: &ReplicaSet, count: i32) -> bool {
    let Some(status) = &set.status else { return false };
    status.observed_generation == set.generation()
        && status.replicas == count
        && status.ready_replicas.unwrap_or_default() == count
}
