//! The controllers by their names.

use std::fmt;
use std::str::FromStr;

use kubewright_client::task::BoxFuture;
use kubewright_core::DynamicObject;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::nodes::{self, NodeOptions};
use crate::{
    certificates, cronjob, daemonset, deployment, disruption, endpoints, ephemeral_volumes, hooks,
    horizontal_pod_autoscaler, ingress_manager, job, load_balancers, node_lifecycle, replicaset,
    root_ca_cert_publisher, sample, service_accounts, statefulset, token_secrets, volumes,
};

/// A built-in controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Shipped {
    /// Automatic approval of the client certificates of kubelets.
    CertificateApproving,
    /// Removal of old certificate signing requests.
    CertificateCleaner,
    /// Signatures for approved certificate signing requests.
    CertificateSigning,
    /// Cron jobs: jobs on a schedule.
    CronJob,
    /// Daemon sets: a pod on each node that fits.
    DaemonSet,
    /// Deployments: a replica set per template, and rollouts between them.
    Deployment,
    /// Disruption budgets: how many pods may be evicted.
    Disruption,
    /// Endpoints and endpoint slices of services.
    Endpoints,
    /// Claims for ephemeral volumes of pods.
    EphemeralVolumes,
    /// Controllers declared as objects, with webhooks for their logic.
    Hooks,
    /// Horizontal pod autoscalers: replicas by the metrics of pods.
    HorizontalPodAutoscaler,
    /// An ingress for each service with the annotation `ingress/http`.
    IngressManager,
    /// Jobs: pods that run to completion.
    Job,
    /// Addresses of load balancers.
    LoadBalancers,
    /// Health of nodes: taints for their conditions.
    NodeLifecycle,
    /// Simulated nodes that schedule, start and stop pods.
    Nodes,
    /// Replica sets: a number of pods.
    ReplicaSet,
    /// Replication controllers, the predecessors of replica sets.
    ReplicationController,
    /// A config map `kube-root-ca.crt` in each namespace, with the certificate authority of the
    /// server.
    RootCaCertPublisher,
    /// The sample controller: a `Foo` owns a deployment.
    Sample,
    /// A service account `default` in each namespace.
    ServiceAccounts,
    /// Tokens in secrets of service accounts.
    ServiceAccountTokens,
    /// Stateful sets: pods with stable names and storage.
    StatefulSet,
    /// Binds claims to volumes, and provisions simulated ones.
    Volumes,
}

impl Shipped {
    /// All of them, by name.
    pub const ALL: [Shipped; 24] = [
        Shipped::CertificateApproving,
        Shipped::CertificateCleaner,
        Shipped::CertificateSigning,
        Shipped::CronJob,
        Shipped::DaemonSet,
        Shipped::Deployment,
        Shipped::Disruption,
        Shipped::Endpoints,
        Shipped::EphemeralVolumes,
        Shipped::Hooks,
        Shipped::HorizontalPodAutoscaler,
        Shipped::IngressManager,
        Shipped::Job,
        Shipped::LoadBalancers,
        Shipped::NodeLifecycle,
        Shipped::Nodes,
        Shipped::ReplicaSet,
        Shipped::ReplicationController,
        Shipped::RootCaCertPublisher,
        Shipped::Sample,
        Shipped::ServiceAccounts,
        Shipped::ServiceAccountTokens,
        Shipped::StatefulSet,
        Shipped::Volumes,
    ];

    /// The name, in logs, metrics and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shipped::CertificateApproving => "csr-approving",
            Shipped::CertificateCleaner => "csr-cleaner",
            Shipped::CertificateSigning => "csr-signing",
            Shipped::CronJob => "cronjob",
            Shipped::DaemonSet => "daemonset",
            Shipped::Deployment => "deployment",
            Shipped::Disruption => "disruption",
            Shipped::Endpoints => "endpoints",
            Shipped::EphemeralVolumes => "ephemeral-volumes",
            Shipped::Hooks => "hooks",
            Shipped::HorizontalPodAutoscaler => "horizontalpodautoscaler",
            Shipped::IngressManager => "ingress-manager",
            Shipped::Job => "job",
            Shipped::LoadBalancers => "service-lb",
            Shipped::NodeLifecycle => "node-lifecycle",
            Shipped::Nodes => "nodes",
            Shipped::ReplicaSet => "replicaset",
            Shipped::ReplicationController => "replicationcontroller",
            Shipped::RootCaCertPublisher => "root-ca-cert-publisher",
            Shipped::Sample => "sample",
            Shipped::ServiceAccounts => "service-accounts",
            Shipped::ServiceAccountTokens => "service-account-tokens",
            Shipped::StatefulSet => "statefulset",
            Shipped::Volumes => "volumes",
        }
    }

    /// A short description.
    pub fn about(self) -> &'static str {
        match self {
            Shipped::CertificateApproving => "approves client certificates of kubelets",
            Shipped::CertificateCleaner => "removes old certificate signing requests",
            Shipped::CertificateSigning => "signs approved certificate signing requests",
            Shipped::CronJob => "makes jobs when the schedules of cron jobs say so",
            Shipped::DaemonSet => "runs a pod of each daemon set on every node that it fits",
            Shipped::Deployment => "rolls deployments out through replica sets",
            Shipped::Disruption => "says how many pods of a disruption budget may go",
            Shipped::Endpoints => {
                "writes endpoints and endpoint slices of services, and slices of endpoints that users write"
            }
            Shipped::EphemeralVolumes => "makes claims for the ephemeral volumes of pods",
            Shipped::Hooks => "runs controllers declared as CompositeController objects, whose logic is a webhook",
            Shipped::HorizontalPodAutoscaler => "scales deployments and others by the metrics of their pods",
            Shipped::IngressManager => "makes an ingress for each service annotated ingress/http: \"true\"",
            Shipped::Job => "runs the pods of jobs to their end",
            Shipped::LoadBalancers => "pretends to be a cloud: gives services of type LoadBalancer an address",
            Shipped::NodeLifecycle => "taints nodes by their conditions, and notices silent ones",
            Shipped::Nodes => "pretends to be nodes, which are used once node-lifecycle finds them ready",
            Shipped::ReplicaSet => "keeps replica sets at their size",
            Shipped::ReplicationController => "keeps replication controllers at their size",
            Shipped::RootCaCertPublisher => {
                "puts the server's certificate authority into each namespace (kube-root-ca.crt)"
            }
            Shipped::Sample => "owns a deployment for each Foo (samplecontroller.k8s.io)",
            Shipped::ServiceAccounts => "makes the service account `default` in each namespace",
            Shipped::ServiceAccountTokens => "fills the token secrets of service accounts",
            Shipped::StatefulSet => "keeps stateful sets at their size and revision, pod by pod",
            Shipped::Volumes => "pretends to have storage: gives claims volumes that hold nothing",
        }
    }

    /// The component of a real cluster with the same task; both would interfere with each other.
    pub fn twin(self) -> Option<&'static str> {
        match self {
            Shipped::Hooks | Shipped::IngressManager | Shipped::Sample => None,
            Shipped::LoadBalancers => Some("the cloud-controller-manager"),
            Shipped::Nodes => Some("kube-scheduler and the kubelets"),
            Shipped::Volumes => Some("kube-controller-manager and its provisioners"),
            _ => Some("kube-controller-manager"),
        }
    }

    /// Whether it can be restricted to one namespace; others watch the whole cluster.
    pub fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Shipped::CertificateApproving
                | Shipped::CertificateCleaner
                | Shipped::CertificateSigning
                | Shipped::DaemonSet
                | Shipped::Hooks
                | Shipped::NodeLifecycle
                | Shipped::Nodes
                | Shipped::RootCaCertPublisher
                | Shipped::ServiceAccounts
                | Shipped::Volumes
        )
    }

    /// The CustomResourceDefinition that it needs, if any.
    pub fn definition(self) -> Option<DynamicObject> {
        match self {
            Shipped::Hooks => Some(hooks::definition()),
            Shipped::Sample => Some(sample::DEFINITION.parse().expect("a definition is an object")),
            _ => None,
        }
    }

    /// Runs it until `stop` is cancelled and running reconciles have ended. Simulates three nodes
    /// with default options.
    ///
    /// # Errors
    /// If it cannot start.
    pub async fn run(self, context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
        unless_stopped(self.work(context, stop).await, stop)
    }

    /// Boxed, so that crates that run controllers do not compile all of them again.
    fn work<'a>(self, context: &'a ControllerContext, stop: &'a CancellationToken) -> BoxFuture<'a, Result<(), Error>> {
        match self {
            Shipped::CertificateApproving => Box::pin(certificates::run_approving(context, stop)),
            Shipped::CertificateCleaner => Box::pin(certificates::run_cleaner(context, stop)),
            Shipped::CertificateSigning => Box::pin(certificates::run_signing(context, stop)),
            Shipped::CronJob => Box::pin(cronjob::run(context, stop)),
            Shipped::DaemonSet => Box::pin(daemonset::run(context, stop)),
            Shipped::Deployment => Box::pin(deployment::run(context, stop)),
            Shipped::Disruption => Box::pin(disruption::run(context, stop)),
            Shipped::Endpoints => Box::pin(endpoints::run(context, stop)),
            Shipped::EphemeralVolumes => Box::pin(ephemeral_volumes::run(context, stop)),
            Shipped::Hooks => Box::pin(hooks::run(context, stop)),
            Shipped::HorizontalPodAutoscaler => Box::pin(horizontal_pod_autoscaler::run(context, stop)),
            Shipped::IngressManager => Box::pin(ingress_manager::run(context, stop)),
            Shipped::Job => Box::pin(job::run(context, stop)),
            Shipped::LoadBalancers => Box::pin(load_balancers::run(context, stop)),
            Shipped::NodeLifecycle => Box::pin(node_lifecycle::run(context, stop)),
            Shipped::Nodes => Box::pin(nodes::run(context, NodeOptions::default(), stop)),
            Shipped::ReplicaSet => Box::pin(replicaset::run(context, stop)),
            Shipped::ReplicationController => Box::pin(replicaset::run_replication_controllers(context, stop)),
            Shipped::RootCaCertPublisher => Box::pin(root_ca_cert_publisher::run(context, stop)),
            Shipped::Sample => Box::pin(sample::run(context, stop)),
            Shipped::ServiceAccounts => Box::pin(service_accounts::run(context, stop)),
            Shipped::ServiceAccountTokens => Box::pin(token_secrets::run(context, stop)),
            Shipped::StatefulSet => Box::pin(statefulset::run(context, stop)),
            Shipped::Volumes => Box::pin(volumes::run(context, stop)),
        }
    }
}

/// Caches that stop before a controller has started are not an error during shutdown.
pub(crate) fn unless_stopped(ended: Result<(), Error>, stop: &CancellationToken) -> Result<(), Error> {
    match ended {
        Err(Error::Stopped(_) | Error::NotSynced(_)) if stop.is_cancelled() => Ok(()),
        ended => ended,
    }
}

impl fmt::Display for Shipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no controller of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}; there are {}", Shipped::ALL.map(Shipped::name).join(", "))]
pub struct UnknownController {
    /// The name.
    pub name: String,
}

impl FromStr for Shipped {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, UnknownController> {
        let found = Shipped::ALL.into_iter().find(|shipped| shipped.name() == name);
        found.ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_controller_stopped_during_its_start_ends_without_error() {
        let server = kubewright_apiserver::ApiServer::in_memory().start().await.unwrap();
        let (context, stop) = (ControllerContext::new(&server.client()), CancellationToken::new());
        stop.cancel();
        for shipped in Shipped::ALL {
            assert!(shipped.run(&context, &stop).await.is_ok(), "{shipped}");
        }
    }

    #[test]
    fn a_controller_is_found_by_its_name() {
        for shipped in Shipped::ALL {
            assert_eq!(shipped.to_string().parse(), Ok(shipped));
        }
        let unknown = "unicorn".parse::<Shipped>().unwrap_err().to_string();
        assert!(unknown.starts_with("there is no controller \"unicorn\"; there are csr-approving, "), "{unknown}");
    }
}
