//! Binds claims to volumes, and provisions simulated volumes.
//!
//! Used with simulated nodes, which need no disks: a claim without a class, or with an existing
//! one, gets an empty volume, so that pods that wait for storage can start. A claim with the class
//! `""` is only bound to user-created volumes. `matching` matches volumes to claims.

mod matching;

use std::sync::Arc;

use kubewright_api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod,
};
use kubewright_api::storage::v1::StorageClass;
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Map, Object, ObjectKey, Str};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::deletion::delete_exactly;
use crate::error::Error;
use crate::indices;
use crate::pods::{claims_of, node_name};
use crate::worker::{self, Reconcile, Synced, work};
use matching::{choose, claim_of, is_of, requested};

/// The provisioner and driver of simulated volumes.
const PROVISIONER: &str = "simulated.kubewright.dev";
/// The provisioner of classes with user-created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

struct Volumes {
    client: Client,
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    classes: Lister<StorageClass>,
    pods: Lister<Pod>,
    events: EventRecorder,
}

/// Binds and provisions volumes until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "PersistentVolumeController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Volumes::NAME);
    let (claims, volumes) = (factory.informer::<PersistentVolumeClaim>(), factory.informer::<PersistentVolume>());
    let (classes, pods) = (factory.informer::<StorageClass>(), factory.informer::<Pod>());
    indices::by_claim(&volumes);
    indices::by_used_claim(&pods);
    let of_claims = claims.add_handler({
        let (queue, volumes) = (queue.clone(), volumes.lister());
        move |event: &Event<PersistentVolumeClaim>| {
            if let Event::Deleted(deleted) = event {
                let left = indices::volumes_of(&volumes, &deleted.key());
                left.iter().for_each(|volume| queue.add(volume.key()));
            }
            queue.add(event.key());
        }
    })?;
    // A new volume or class may satisfy pending claims.
    let wake_waiting = {
        let (queue, claims) = (queue.clone(), claims.lister());
        move || claims.snapshot().iter().filter(|claim| !is_bound(claim)).for_each(|claim| queue.add(claim.key()))
    };
    let of_volumes = volumes.add_handler({
        let (queue, wake_waiting) = (queue.clone(), wake_waiting.clone());
        move |event: &Event<PersistentVolume>| {
            if event.is_resync() {
                return;
            }
            queue.add(event.key());
            match event.object().and_then(|volume| claim_of(volume)) {
                Some(claim) => {
                    let (namespace, name) = (claim.namespace.clone(), claim.name.clone());
                    queue.add(ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default()));
                }
                None => wake_waiting(),
            }
        }
    })?;
    let of_classes = classes.add_handler(move |event: &Event<StorageClass>| {
        if !event.is_resync() {
            wake_waiting();
        }
    })?;
    // A class may delay provisioning until a pod that uses the claim is scheduled.
    let of_pods = pods.add_handler({
        let queue = queue.clone();
        move |event: &Event<Pod>| {
            if let Some(pod) = event.object().filter(|pod| !event.is_resync() && !node_name(pod).is_empty()) {
                claims_of(pod).for_each(|claim| queue.add(ObjectKey::namespaced(pod.namespace(), claim)));
            }
        }
    })?;
    factory.start(stop);
    let has_synced = of_claims.synced().await && of_volumes.synced().await && of_classes.synced().await;
    if has_synced && of_pods.synced().await {
        let controller = Volumes {
            client: client.clone(),
            claims: claims.lister(),
            volumes: volumes.lister(),
            classes: classes.lister(),
            pods: pods.lister(),
            events: context.recorder("persistentvolume-controller"),
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    [of_claims, of_volumes, of_classes, of_pods].iter().for_each(kubewright_cache::HandlerRegistration::remove);
    Ok(())
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

impl Reconcile for Volumes {
    const NAME: &'static str = "volumes";
    /// The key of a claim or, without a namespace, of a volume.
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        if key.namespace().is_empty() {
            let Some(volume) = self.volumes.get(key.name()) else { return Ok(None) };
            return self.look_after(&volume).await;
        }
        let Some(claim) = self.claims.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        if is_bound(&claim) || claim.is_being_deleted() {
            return Ok(None);
        }
        let mut volumes = indices::volumes_of(&self.volumes, key);
        volumes.extend(indices::free_volumes(&self.volumes));
        let is_asked_for = claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
        match choose(&claim, &volumes) {
            // A volume chosen by the user is bound immediately.
            Some(volume) if is_asked_for || claim_of(&volume).is_some() || !self.waits(&claim) => {
                self.bind(&claim, &volume).await
            }
            _ => self.provision(&claim).await,
        }
    }
}

impl Volumes {
    /// Updates the phase of a volume, and releases one whose claim is deleted.
    #[doc(alias = "syncVolume")]
    async fn look_after(&self, volume: &PersistentVolume) -> Synced {
        let Some(reference) = claim_of(volume) else { return self.tell(volume, "Available").await };
        let (namespace, name) = (reference.namespace.clone(), reference.name.clone().unwrap_or_default());
        let claim = self.claims.namespace(namespace.unwrap_or_default()).get(&name);
        if claim.is_some_and(|claim| is_of(reference, &claim)) {
            return Ok(None);
        }
        if reference.uid.as_deref().unwrap_or_default().is_empty() {
            return self.tell(volume, "Available").await;
        }
        // Written before the deletion: a bound volume is protected from it.
        let is_told = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        let is_ours = volume.annotations().get(PROVISIONED_BY) == Some(PROVISIONER);
        if !is_told || policy != Some("Delete") || !is_ours || volume.is_being_deleted() {
            return self.tell(volume, "Released").await;
        }
        delete_exactly(&Api::<PersistentVolume>::all(&self.client), volume).await?;
        Ok(None)
    }

    /// Writes the phase of a volume, even while it is being deleted: a bound one is protected.
    async fn tell(&self, volume: &PersistentVolume, phase: &str) -> Synced {
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
            return Ok(None);
        }
        let mut changed = volume.clone();
        changed.status.get_or_insert_default().phase = Some(phase.into());
        match Api::<PersistentVolume>::all(&self.client).update_status(&changed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }

    /// Reserves a volume for a claim, then records it in the claim, so that readers of the claim
    /// find it bound.
    async fn bind(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Synced {
        let mut volume = volume.clone();
        if claim_of(&volume).is_none_or(|reference| reference.uid.as_deref() != Some(claim.uid())) {
            volume.spec.get_or_insert_default().claim_ref = Some(reference_to(claim).into());
            volume.metadata.annotations.insert(BOUND_BY_CONTROLLER, "yes".into());
            volume = Api::<PersistentVolume>::all(&self.client).update(&volume).await?;
        }
        self.tell(&volume, "Bound").await?;
        let api = Api::<PersistentVolumeClaim>::namespaced(&self.client, claim.namespace());
        let mut claim = claim.clone();
        if claim.annotations().get(BIND_COMPLETED).is_none() {
            let spec = claim.spec.get_or_insert_default();
            if spec.volume_name.as_deref().unwrap_or_default().is_empty() {
                spec.volume_name = volume.metadata.name.clone();
                claim.metadata.annotations.insert(BOUND_BY_CONTROLLER, "yes".into());
            }
            claim.metadata.annotations.insert(BIND_COMPLETED, "yes".into());
            claim = api.update(&claim).await?;
        }
        let offered = volume.spec.unwrap_or_default();
        let status = claim.status.get_or_insert_default();
        status.phase = Some("Bound".into());
        status.access_modes = offered.access_modes;
        status.capacity = offered.capacity;
        api.update_status(&claim).await?;
        Ok(None)
    }

    /// Provisions a volume, if the claim allows it and it is due.
    async fn provision(&self, claim: &PersistentVolumeClaim) -> Synced {
        let Some(spec) = &claim.spec else { return Ok(None) };
        let name = spec.storage_class_name.as_deref();
        let class = self.class_of(claim);
        let is_static = name == Some("")
            || spec.volume_name.is_some()
            || spec.selector.is_some()
            || class.as_ref().is_some_and(|class| class.provisioner == NO_PROVISIONER);
        if is_static || name.is_some() && class.is_none() {
            return Ok(None);
        }
        if self.waits(claim) {
            let message = "waiting for first consumer to be created before binding";
            self.events.normal(claim, "WaitForFirstConsumer", message);
            return Ok(None);
        }
        let volume = new_volume(claim, class.as_deref());
        match Api::<PersistentVolume>::all(&self.client).create(&volume).await {
            Ok(made) => {
                let message = format!("Successfully provisioned volume {}", made.name());
                self.events.normal(claim, "ProvisioningSucceeded", message);
            }
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        // The event of the volume queues the claim.
        Ok(None)
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<Arc<StorageClass>> {
        self.classes.get(claim.spec.as_ref()?.storage_class_name.as_deref()?)
    }

    /// Whether the claim waits for its first pod, and none uses it yet.
    fn waits(&self, claim: &PersistentVolumeClaim) -> bool {
        let mode = self.class_of(claim).and_then(|class| class.volume_binding_mode.clone());
        mode.as_deref() == Some("WaitForFirstConsumer") && !indices::is_used(&self.pods, &claim.key())
    }
}

fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        kind: Some("PersistentVolumeClaim".into()),
        api_version: Some("v1".into()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        ..Default::default()
    }
}

fn new_volume(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> PersistentVolume {
    let mut volume = PersistentVolume::default();
    let name: Str = format!("pvc-{}", claim.uid()).into();
    volume.metadata.name = Some(name.clone());
    volume.metadata.annotations.insert(PROVISIONED_BY, PROVISIONER.into());
    let spec = claim.spec.clone().unwrap_or_default();
    let csi = CSIPersistentVolumeSource { driver: PROVISIONER.into(), volume_handle: name, ..Default::default() };
    volume.spec = Some(PersistentVolumeSpec {
        capacity: Map::from([("storage", requested(claim))]),
        access_modes: spec.access_modes,
        claim_ref: Some(reference_to(claim).into()),
        persistent_volume_reclaim_policy: Some(
            class.and_then(|class| class.reclaim_policy.clone()).unwrap_or("Delete".into()),
        ),
        storage_class_name: spec.storage_class_name,
        volume_mode: spec.volume_mode,
        csi: Some(csi.into()),
        ..Default::default()
    });
    volume
}
