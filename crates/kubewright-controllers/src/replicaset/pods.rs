//! Creates missing pods of a set and deletes surplus ones.

use std::sync::Arc;

use kubewright_api::apps::v1::ReplicaSetSpec;
use kubewright_api::core::v1::Pod;
use kubewright_client::clock;
use kubewright_core::owner;

use super::ReplicaSets;
use super::kind::Replicated;
use super::victims::choose;
use crate::error::Error;
use crate::indices;
use crate::owner_events::controller;
use crate::pods::is_active;

/// Maximum number of pods created or deleted per reconcile.
const BURST: usize = 500;

impl<S: Replicated> ReplicaSets<S> {
    /// Creates or deletes pods to reach the desired number.
    pub(super) async fn manage(&self, set: &Arc<S>, spec: &ReplicaSetSpec, active: &[Arc<Pod>]) -> Result<(), Error> {
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        if active.len() < wanted {
            let missing = (wanted - active.len()).min(BURST);
            return self.control.create(&**set, vec![pod_of(&**set, spec); missing]).await.1;
        }
        let surplus = (active.len() - wanted).min(BURST);
        if surplus == 0 {
            return Ok(());
        }
        let victims = choose(active.to_vec(), &self.related(set), surplus, clock::now());
        self.control.delete(&**set, victims).await.result
    }

    /// The active pods of all sets with the same controller, such as the older sets of a
    /// deployment.
    fn related(&self, set: &Arc<S>) -> Vec<Arc<Pod>> {
        let siblings = match controller(set) {
            Some(reference) => indices::controlled_by(&self.sets, &reference.uid),
            None => vec![set.clone()],
        };
        let pods = self.pods.lister();
        let of_all = siblings.iter().flat_map(|sibling| indices::controlled_by(&pods, sibling.uid()));
        of_all.filter(|pod| is_active(pod)).collect()
    }
}

/// A pod of the set's template.
fn pod_of<S: Replicated>(set: &S, spec: &ReplicaSetSpec) -> Pod {
    let template = spec.template.clone().unwrap_or_default();
    let mut pod = Pod { spec: template.spec.clone(), ..Default::default() };
    pod.metadata.generate_name = Some(format!("{}-", set.name()).into());
    pod.metadata.namespace = Some(set.namespace().into());
    pod.metadata.labels = template.metadata.labels.clone();
    pod.metadata.annotations = template.metadata.annotations.clone();
    pod.metadata.finalizers = template.metadata.finalizers.clone();
    pod.metadata.owner_references = [owner::new_controller_ref(set.metadata(), &S::KIND)].into();
    pod
}
