//! Signs of life of simulated nodes: a Lease each, and a status that is ready.

use std::time::Duration;

use kubewright_api::coordination::v1::{Lease, LeaseSpec};
use kubewright_api::core::v1::Node;
use kubewright_client::{Api, clock};
use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::options::Patch;
use kubewright_core::{MicroTime, Object};
use tokio_util::sync::CancellationToken;

use super::options::{FAILED_ANNOTATION, SLOWDOWN_ANNOTATION};
use super::{Nodes, registration};
use crate::error::Error;
use crate::node_lifecycle::{LEASES, is_ready};

/// How long a Lease counts, in seconds.
const LEASE_SECONDS: i32 = 40;
/// How often it is renewed: four times in this time.
const PERIOD: Duration = Duration::from_secs(LEASE_SECONDS as u64 / 4);

const SLOWDOWN_MIN: f64 = 0.001;
const SLOWDOWN_MAX: f64 = 1000.0;

/// Whether a node is annotated as failed: it then writes nothing, and its pods do not change.
pub(super) fn has_failed(node: &Node) -> bool {
    node.metadata.annotations.get(FAILED_ANNOTATION).is_some_and(|failed| *failed == "true")
}

/// How many times longer everything takes on a node, by its annotation.
pub(super) fn slowdown(node: &Node) -> f64 {
    let annotated = node.metadata.annotations.get(SLOWDOWN_ANNOTATION).and_then(|factor| factor.trim().parse().ok());
    annotated.filter(|factor: &f64| (SLOWDOWN_MIN..=SLOWDOWN_MAX).contains(factor)).unwrap_or(1.0)
}

impl Nodes {
    /// Sends heartbeats until `stop` is cancelled.
    pub(super) async fn beat(&self, stop: &CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            for name in self.options.names() {
                let Some(node) = self.nodes.get(&name).filter(|node| !has_failed(node)) else { continue };
                let Some(beat) = stop.run_until_cancelled(self.beat_once(&node)).await else { return };
                if let Err(error) = beat {
                    tracing::warn!(node = name, error = &error as &dyn std::error::Error, "a heartbeat failed");
                }
            }
        }
    }

    /// Renews the Lease of a node, and makes it ready if it is not.
    async fn beat_once(&self, node: &Node) -> Result<(), Error> {
        let leases = Api::<Lease>::namespaced(&self.client, LEASES);
        let now = MicroTime::now();
        let renewed = format!(r#"{{"spec":{{"renewTime":"{now}"}}}}"#);
        match leases.patch(node.name(), Patch::Merge(renewed.into_bytes())).await {
            Err(error) if error.is_not_found() => {
                leases.create(&lease(node, now)).await?;
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if !is_ready(node) {
            let mut changed = node.clone();
            let status = changed.status.get_or_insert_default();
            status.conditions = registration::conditions(clock::now());
            match Api::<Node>::all(&self.client).update_status(&changed).await {
                // Another writer was faster; the next heartbeat tries again.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

fn lease(node: &Node, now: MicroTime) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.name = node.metadata.name.clone();
    lease.metadata.namespace = Some(LEASES.into());
    lease.metadata.owner_references = [OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.name().into(),
        uid: node.uid().into(),
        ..Default::default()
    }]
    .into();
    lease.spec = Some(LeaseSpec {
        holder_identity: node.metadata.name.clone(),
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(now),
        ..Default::default()
    });
    lease
}
