//! Publishes a config map `kube-root-ca.crt` in each namespace, with which pods verify the API
//! server.
//!
//! Projected service account token volumes refer to it, and operators read it.

use std::sync::Arc;

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_cache::{Event, InformerScope, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{FieldSelector, Map, Object, ObjectKey, Str};
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{self, Reconcile, Synced, work};

#[doc(alias = "RootCACertConfigMapName")]
const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Publisher {
    client: Client,
    namespaces: Lister<Namespace>,
    published: Lister<ConfigMap>,
    /// In PEM.
    authority: Str,
}

/// Maintains a config map `kube-root-ca.crt` in each namespace until `stop` is cancelled. Without
/// an
/// [authority](ControllerContext::root_ca)in the context, nothing is published.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "RootCACertPublisher")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let Some(authority) = context.root_ca.clone() else {
        tracing::warn!(controller = Publisher::NAME, "there is no certificate authority to publish");
        stop.cancelled().await;
        return Ok(());
    };
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Publisher::NAME);
    let namespaces = factory.informer::<Namespace>();
    // Other config maps are irrelevant, and may be many and large.
    let of_this_name = FieldSelector::everything().equals("metadata.name", NAME);
    let published = factory.informer_with(InformerScope::<ConfigMap>::default().fields(of_this_name));
    let of_namespaces = namespaces.add_handler({
        let queue = queue.clone();
        move |event: &Event<Namespace>| queue.add(event.key())
    })?;
    let of_published = published.add_handler({
        let queue = queue.clone();
        move |event: &Event<ConfigMap>| queue.add(ObjectKey::cluster(event.key().namespace()))
    })?;
    factory.start(stop);
    if of_namespaces.synced().await && of_published.synced().await {
        let controller = Publisher {
            client: client.clone(),
            namespaces: namespaces.lister(),
            published: published.lister(),
            authority,
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_namespaces.remove();
    of_published.remove();
    Ok(())
}

impl Reconcile for Publisher {
    const NAME: &'static str = "root-ca-cert-publisher";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let namespace = key.name().clone();
        if self.namespaces.get(&namespace).is_none_or(|namespace| namespace.is_being_deleted()) {
            return Ok(None);
        }
        let known = self.published.namespace(namespace.clone()).get(NAME);
        let mut map = known.as_deref().cloned().unwrap_or_default();
        map.data = Map::from([(KEY, self.authority.clone())]);
        if map.annotations().get(DESCRIPTION).is_none_or(str::is_empty) {
            map.metadata.annotations.insert(DESCRIPTION, DESCRIBED.into());
        }
        let api = Api::<ConfigMap>::namespaced(&self.client, namespace);
        let written = match known {
            Some(known) if *known == map => return Ok(None),
            Some(_) => api.update(&map).await,
            None => {
                map.metadata.name = Some(NAME.into());
                api.create(&map).await
            }
        };
        match written {
            // An event queues the key again if anything is left to do: the map exists, is deleted,
            // or its namespace is.
            Err(error) if !error.is_already_exists() && !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }
}
