//! The status of a daemon set.

use kubewright_api::apps::v1::{DaemonSet, DaemonSetStatus};
use kubewright_client::Api;
use kubewright_core::Object;

use super::DaemonSets;
use super::plan::PlanInput;
use crate::error::Error;
use crate::pods::is_ready;

/// Computes the status; of several pods on a node the oldest counts.
#[doc(alias = "updateDaemonSetStatus")]
pub(super) fn calculate(set: &DaemonSet, picture: &PlanInput<'_>, collisions: i32) -> DaemonSetStatus {
    let mut status = DaemonSetStatus { observed_generation: set.metadata.generation, ..Default::default() };
    let (mut available, mut updated) = (0, 0);
    for (node, place) in &picture.nodes {
        let pod = picture.pods_of(node).first();
        if !place.is_wanted {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(is_ready(pod));
        available += i32::from(picture.is_available(pod));
        updated += i32::from(picture.is_new(pod));
    }
    // Zero is omitted, as a Go server does.
    let told = |count: i32| (count != 0).then_some(count);
    status.number_available = told(available);
    status.updated_number_scheduled = told(updated);
    status.number_unavailable = told(status.desired_number_scheduled - available);
    let before = set.status.clone().unwrap_or_default();
    status.collision_count = if collisions == 0 { before.collision_count } else { Some(collisions) };
    status.conditions = before.conditions;
    status
}

impl DaemonSets {
    /// Writes the status if it changed.
    pub(super) async fn write_status(&self, set: &DaemonSet, status: DaemonSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let changed = DaemonSet { status: Some(status), ..set.clone() };
        match Api::<DaemonSet>::namespaced(&self.client, set.namespace()).update_status(&changed).await {
            Ok(written) => self.own_sets.written(&set.key(), &written),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
