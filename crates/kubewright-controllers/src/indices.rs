//! Indices of caches, some of them shared by several controllers.

use kubewright_api::core::v1::{ObjectReference, PersistentVolume, Pod};
use kubewright_api::discovery::v1::EndpointSlice;
use kubewright_cache::{Indexers, InformerHandle, Lister};
use kubewright_core::{Object, ObjectKey, Str};
use std::sync::Arc;

use crate::pods::{claims_of, ephemeral_claim, is_finished, node_name};

const CONTROLLER: &str = "kubewright.controller-uid";
const JOB: &str = "kubewright.job";
const ADDRESS: &str = "kubewright.pod-ip";
const CLAIM: &str = "kubewright.claim";
const USED_CLAIM: &str = "kubewright.used-claim";
const EPHEMERAL_CLAIM: &str = "kubewright.ephemeral-claim";
const SERVICE: &str = "kubewright.service";

/// Indexes objects by the uid of their controller, those without one by namespace.
pub(crate) fn by_controller<T: Object>(informer: &InformerHandle<T>) {
    ensure(informer, CONTROLLER, |object: &T| {
        let references = object.owner_references();
        let controller = references.iter().find(|reference| reference.controller == Some(true));
        [controller.map_or_else(|| orphans_in(object.namespace()), |reference| reference.uid.clone())]
    });
}

/// Objects controlled by this uid.
pub(crate) fn controlled_by<T: Object>(lister: &Lister<T>, uid: &str) -> Vec<Arc<T>> {
    lister.by_index(CONTROLLER, uid).unwrap_or_default()
}

/// Objects of a namespace without a controller.
pub(crate) fn orphans<T: Object>(lister: &Lister<T>, namespace: &str) -> Vec<Arc<T>> {
    lister.by_index(CONTROLLER, &orphans_in(namespace)).unwrap_or_default()
}

/// Uids contain no slash.
fn orphans_in(namespace: &str) -> Str {
    format!("orphans/{namespace}").into()
}

/// Indexes pods by the key of their job, whatever its uid; only those that `counts` selects.
pub(crate) fn by_job(informer: &InformerHandle<Pod>, counts: impl Fn(&Pod) -> bool + Send + Sync + 'static) {
    ensure(informer, JOB, move |pod: &Pod| {
        let is_job = |api_version: &str, kind: &str| kind == "Job" && api_version == "batch/v1";
        let references = pod.owner_references();
        let controller = references.iter().find(|reference| reference.controller == Some(true));
        let job = controller.filter(|reference| is_job(&reference.api_version, &reference.kind));
        job.filter(|_| counts(pod)).map(|job| key_of(pod.namespace(), &job.name))
    });
}

/// Indexed pods of a job with this key, current or earlier.
pub(crate) fn of_job(pods: &Lister<Pod>, job: &ObjectKey) -> Vec<Arc<Pod>> {
    pods.by_index(JOB, &key_of(job.namespace(), job.name())).unwrap_or_default()
}

fn key_of(namespace: &str, name: &str) -> Str {
    format!("{namespace}/{name}").into()
}

/// Indexes pods that have not ended by address.
pub(crate) fn by_address(informer: &InformerHandle<Pod>) {
    ensure(informer, ADDRESS, |pod: &Pod| {
        pod.status.as_ref().filter(|_| !is_finished(pod)).and_then(|status| status.pod_ip.clone())
    });
}

/// Whether a pod that has not ended has this address.
pub(crate) fn has_address(pods: &Lister<Pod>, address: &str) -> bool {
    !of_address(pods, address).is_empty()
}

/// The pods with this address that have not ended.
pub(crate) fn of_address(pods: &Lister<Pod>, address: &str) -> Vec<Arc<Pod>> {
    pods.by_index(ADDRESS, address).unwrap_or_default()
}

/// Indexes assigned pods by the claims that they use.
pub(crate) fn by_used_claim(informer: &InformerHandle<Pod>) {
    ensure(informer, USED_CLAIM, |pod: &Pod| {
        let has_node = !node_name(pod).is_empty();
        let keys = claims_of(pod).filter(|_| has_node).map(|claim| key_of(pod.namespace(), &claim));
        keys.collect::<Vec<_>>()
    });
}

/// Whether an assigned pod uses this claim.
pub(crate) fn is_used(pods: &Lister<Pod>, claim: &ObjectKey) -> bool {
    pods.by_index(USED_CLAIM, &key_of(claim.namespace(), claim.name())).is_ok_and(|pods| !pods.is_empty())
}

/// Indexes pods by the claims of their ephemeral volumes.
pub(crate) fn by_ephemeral_claim(informer: &InformerHandle<Pod>) {
    ensure(informer, EPHEMERAL_CLAIM, |pod: &Pod| {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter());
        let claims = volumes.filter_map(|volume| ephemeral_claim(pod, volume));
        claims.map(|claim| key_of(pod.namespace(), &claim)).collect::<Vec<_>>()
    });
}

/// Pods with an ephemeral volume whose claim has this key.
pub(crate) fn pods_with_ephemeral(pods: &Lister<Pod>, claim: &ObjectKey) -> Vec<Arc<Pod>> {
    pods.by_index(EPHEMERAL_CLAIM, &key_of(claim.namespace(), claim.name())).unwrap_or_default()
}

/// Indexes slices by the service that `label` names.
pub(crate) fn by_service(informer: &InformerHandle<EndpointSlice>, label: &'static str) {
    ensure(informer, SERVICE, move |slice: &EndpointSlice| {
        slice.labels().get(label).map(|service| key_of(slice.namespace(), service))
    });
}

/// Slices of the service with this key, with any owner.
pub(crate) fn slices_of(slices: &Lister<EndpointSlice>, service: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
    slices.by_index(SERVICE, &key_of(service.namespace(), service.name())).unwrap_or_default()
}

/// Indexes volumes by the claim that they are reserved for.
pub(crate) fn by_claim(informer: &InformerHandle<PersistentVolume>) {
    ensure(informer, CLAIM, |volume: &PersistentVolume| {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_deref());
        let key = |reference: &ObjectReference| {
            let part = |part: &Option<Str>| part.clone().unwrap_or_default();
            key_of(&part(&reference.namespace), &part(&reference.name))
        };
        [reference.map_or(FREE.into(), key)]
    });
}

/// Volumes reserved for the claim with this key, current or earlier.
pub(crate) fn volumes_of(volumes: &Lister<PersistentVolume>, claim: &ObjectKey) -> Vec<Arc<PersistentVolume>> {
    volumes.by_index(CLAIM, &key_of(claim.namespace(), claim.name())).unwrap_or_default()
}

/// Unreserved volumes.
pub(crate) fn free_volumes(volumes: &Lister<PersistentVolume>) -> Vec<Arc<PersistentVolume>> {
    volumes.by_index(CLAIM, FREE).unwrap_or_default()
}

/// Keys contain a slash.
const FREE: &str = "free";

/// Adds an index unless it exists.
fn ensure<T: Object, I, V>(
    informer: &InformerHandle<T>,
    name: &'static str,
    values: impl Fn(&T) -> I + Send + Sync + 'static,
) where
    I: IntoIterator<Item = V>,
    V: Into<Str>,
{
    if informer.store().snapshot().indexers().all(|have| have != name) {
        // Fails only if the same index was added concurrently, or the informer has stopped.
        let _ = informer.add_indexers(Indexers::new().with(name, values));
    }
}

#[cfg(test)]
mod tests {
    use kubewright_cache::SharedInformerFactory;
    use kubewright_client::Api;
    use kubewright_core::meta::v1::OwnerReference;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn pods_are_found_by_their_controller_and_orphans_by_their_namespace() {
        // RS-7
        let server = kubewright_apiserver::ApiServer::in_memory().start().await.unwrap();
        let (client, stop) = (server.client(), CancellationToken::new());
        // The garbage collector deletes objects without an existing owner, so one is created.
        let mut owner = kubewright_api::core::v1::ConfigMap::default();
        owner.metadata.name = Some("owner".into());
        let owner = Api::namespaced(&client, "default").create(&owner).await.unwrap();
        for (name, uid) in [("owned", Some(owner.uid())), ("orphan", None)] {
            let mut pod = Pod::default();
            pod.metadata.name = Some(name.into());
            pod.spec.get_or_insert_default().containers = [kubewright_api::core::v1::Container {
                name: "main".into(),
                image: Some("one:1".into()),
                ..Default::default()
            }]
            .into();
            let reference = |uid: &str| OwnerReference {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: "owner".into(),
                uid: uid.into(),
                controller: Some(true),
                ..Default::default()
            };
            pod.metadata.owner_references = uid.map(reference).into_iter().collect();
            Api::<Pod>::namespaced(&client, "default").create(&pod).await.unwrap();
        }
        let factory = SharedInformerFactory::new(&client, Default::default());
        let pods = factory.informer::<Pod>();
        by_controller(&pods);
        by_controller(&pods);
        factory.start(&stop);
        assert!(pods.synced().await);
        let names = |found: Vec<Arc<Pod>>| found.iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(orphans(&pods.lister(), "default")), ["orphan"]);
        assert!(names(orphans(&pods.lister(), "elsewhere")).is_empty());
        assert_eq!(names(controlled_by(&pods.lister(), owner.uid())), ["owned"]);
    }
}
