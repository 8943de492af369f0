//! Indices of caches that several controllers share: by controller, and by node.

use kubewright_api::core::v1::Pod;
use kubewright_cache::{Indexers, InformerHandle, Lister};
use kubewright_core::{Object, Str};
use std::sync::Arc;

const CONTROLLER: &str = "kubewright.controller-uid";
const ADDRESS: &str = "kubewright.pod-ip";

/// Indexes objects by the uid of their controller, those without one by namespace.
pub(crate) fn by_controller<T: Object>(informer: &InformerHandle<T>) {
    ensure(informer, CONTROLLER, |object: &T| {
        let references = object.owner_references();
        let controller = references.iter().find(|reference| reference.controller == Some(true));
        [controller.map_or_else(|| orphans_in(object.namespace()), |reference| reference.uid.clone())]
    });
}

/// Objects that this uid controls.
pub(crate) fn controlled_by<T: Object>(lister: &Lister<T>, uid: &str) -> Vec<Arc<T>> {
    lister.by_index(CONTROLLER, uid).unwrap_or_default()
}

/// Objects of a namespace that nobody controls.
pub(crate) fn orphans<T: Object>(lister: &Lister<T>, namespace: &str) -> Vec<Arc<T>> {
    lister.by_index(CONTROLLER, &orphans_in(namespace)).unwrap_or_default()
}

/// No uid has a slash.
fn orphans_in(namespace: &str) -> Str {
    format!("orphans/{namespace}").into()
}

/// Indexes pods by their address.
pub(crate) fn by_address(informer: &InformerHandle<Pod>) {
    ensure(informer, ADDRESS, |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone()));
}

/// Whether a pod has this address.
pub(crate) fn has_address(pods: &Lister<Pod>, address: &str) -> bool {
    pods.by_index(ADDRESS, address).is_ok_and(|pods| !pods.is_empty())
}

/// Adds an index unless another controller has done so.
fn ensure<T: Object, I, V>(
    informer: &InformerHandle<T>,
    name: &'static str,
    values: impl Fn(&T) -> I + Send + Sync + 'static,
) where
    I: IntoIterator<Item = V>,
    V: Into<Str>,
{
    if informer.store().snapshot().indexers().all(|have| have != name) {
        // Fails only if somebody was faster, with the same index, or if the informer has stopped.
        let _ = informer.add_indexers(Indexers::new().with(name, values));
    }
}
