//! State of pods and deployments.

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::Pod;
use kubewright_cache::{InformerHandle, SharedInformerFactory};
use kubewright_core::{Object, Selector};

/// The observed caches.
pub struct Workloads {
    pods: InformerHandle<Pod>,
    deployments: InformerHandle<Deployment>,
}

/// Pod counts by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pods {
    pub all: usize,
    pub ready: usize,
    pub stopping: usize,
    pub ended: usize,
}

/// State of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    pub name: String,
    pub wanted: i32,
    pub available: i32,
    pub updated: i32,
    pub replicas: i32,
}

impl Rollout {
    /// Whether all replicas are of the newest template and available.
    pub fn is_complete(&self) -> bool {
        self.available == self.wanted && self.updated == self.wanted && self.replicas == self.wanted
    }
}

impl Workloads {
    /// Uses the caches of the controllers.
    pub fn new(factory: &SharedInformerFactory) -> Self {
        Workloads { pods: factory.informer(), deployments: factory.informer() }
    }

    /// Counts pods.
    pub fn pods(&self) -> Pods {
        let mut pods = Pods::default();
        for pod in self.pods.store().snapshot().iter() {
            pods.all += 1;
            let status = pod.status.as_ref();
            let is_ready = status.is_some_and(|status| {
                status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            });
            match status.and_then(|status| status.phase.as_deref()) {
                _ if pod.is_being_deleted() => pods.stopping += 1,
                Some("Succeeded" | "Failed") => pods.ended += 1,
                _ if is_ready => pods.ready += 1,
                _ => {}
            }
        }
        pods
    }

    /// All deployments: incomplete ones first, then by name.
    pub fn rollouts(&self) -> Vec<Rollout> {
        let deployments = self.deployments.lister().list(&Selector::everything());
        let mut rollouts: Vec<Rollout> = deployments.iter().map(|deployment| rollout_of(deployment)).collect();
        rollouts.sort_by(|one, two| (one.is_complete(), &one.name).cmp(&(two.is_complete(), &two.name)));
        rollouts
    }
}

fn rollout_of(deployment: &Deployment) -> Rollout {
    let status = deployment.status.clone().unwrap_or_default();
    Rollout {
        name: deployment.key().to_string(),
        wanted: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        available: status.available_replicas.unwrap_or_default(),
        updated: status.updated_replicas.unwrap_or_default(),
        replicas: status.replicas.unwrap_or_default(),
    }
}
