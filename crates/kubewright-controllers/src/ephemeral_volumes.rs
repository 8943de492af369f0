//! Creates claims for ephemeral volumes: named by pod and volume, and owned by the pod.

use std::sync::Arc;

use kubewright_api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, owner};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::pods::ephemeral_claim;
use crate::worker::{self, Reconcile, Synced, work};

const POD: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Pod");

struct EphemeralVolumes {
    client: Client,
    pods: Lister<Pod>,
    claims: Lister<PersistentVolumeClaim>,
    events: EventRecorder,
}

/// Creates claims for ephemeral volumes until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "EphemeralVolumeController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, EphemeralVolumes::NAME);
    let (pods, claims) = (factory.informer::<Pod>(), factory.informer::<PersistentVolumeClaim>());
    indices::by_ephemeral_claim(&pods);
    // Volumes of a pod never change, and claims are collected with their owner.
    let of_pods = pods.add_handler({
        let queue = queue.clone();
        move |event: &Event<Pod>| {
            if let Event::Added { object, .. } = event
                && ephemeral_volumes(object).next().is_some()
            {
                queue.add(object.key());
            }
        }
    })?;
    // A deleted claim is created again, or may have been the one in the way.
    let of_claims = claims.add_handler({
        let (queue, pods) = (queue.clone(), pods.lister());
        move |event: &Event<PersistentVolumeClaim>| {
            if let Event::Deleted(deleted) = event {
                indices::pods_with_ephemeral(&pods, &deleted.key()).iter().for_each(|pod| queue.add(pod.key()));
            }
        }
    })?;
    factory.start(stop);
    if of_pods.synced().await && of_claims.synced().await {
        let controller = EphemeralVolumes {
            client: client.clone(),
            pods: pods.lister(),
            claims: claims.lister(),
            events: context.recorder("ephemeral_volume"),
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_pods.remove();
    of_claims.remove();
    Ok(())
}

fn ephemeral_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter()).filter(|volume| volume.ephemeral.is_some())
}

impl Reconcile for EphemeralVolumes {
    const NAME: &'static str = "ephemeral-volumes";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(pod) = self.pods.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        if pod.is_being_deleted() {
            return Ok(None);
        }
        for volume in ephemeral_volumes(&pod) {
            if let Err(error) = self.ensure_claim(&pod, volume).await {
                if !error.is_namespace_terminating() {
                    let doing = match (&error, ephemeral_claim(&pod, volume)) {
                        (Error::Request(_), Some(name)) => format!("create PVC {name}: "),
                        _ => String::new(),
                    };
                    let message = format!("ephemeral volume {}: {doing}{}", volume.name, error.event_message());
                    self.events.warning(&*pod, "FailedBinding", message);
                }
                return Err(error);
            }
        }
        Ok(None)
    }
}

impl EphemeralVolumes {
    async fn ensure_claim(&self, pod: &Pod, volume: &Volume) -> Result<(), Error> {
        let Some(name) = ephemeral_claim(pod, volume) else { return Ok(()) };
        if let Some(known) = self.claims.namespace(pod.namespace()).get(&name) {
            return if owner::is_controlled_by(&known.metadata, &pod.metadata) {
                Ok(())
            } else {
                Err(Error::NotOfPod { claim: known.key().to_string(), pod: pod.key().to_string() })
            };
        }
        let template = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.clone());
        let template = template.map(kubewright_core::Shared::into_inner).unwrap_or_default();
        let mut claim = PersistentVolumeClaim { spec: Some(template.spec), ..Default::default() };
        claim.metadata.name = Some(name);
        claim.metadata.annotations = template.metadata.annotations;
        claim.metadata.labels = template.metadata.labels;
        claim.metadata.owner_references = [owner::new_controller_ref(&pod.metadata, &POD)].into();
        Api::<PersistentVolumeClaim>::namespaced(&self.client, pod.namespace()).create(&claim).await?;
        Ok(())
    }
}
