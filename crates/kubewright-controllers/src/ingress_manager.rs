//! The ingress manager: creates an ingress for each service with the annotation `ingress/http:
//! "true"`, and deletes it with the annotation.
//!
//! The controller of many tutorials, and the shortest one here: read it first. It is not run by
//! default.

use std::sync::Arc;

use kubewright_api::core::v1::Service;
use kubewright_api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    ServiceBackendPort,
};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector, owner};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::deletion::delete_exactly;
use crate::error::Error;
use crate::owner_events::owners_of;
use crate::worker::{self, Reconcile, Synced, work};

/// The annotation of services that want an ingress.
pub const ANNOTATION: &str = "ingress/http";

const SERVICE: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Service");

struct IngressManager {
    client: Client,
    services: Lister<Service>,
    ingresses: Lister<Ingress>,
    events: EventRecorder,
}

/// Maintains ingresses of annotated services until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, IngressManager::NAME);
    let (services, ingresses) = (factory.informer::<Service>(), factory.informer::<Ingress>());
    let of_services = services.add_handler({
        let queue = queue.clone();
        move |event: &Event<Service>| queue.add(event.key())
    })?;
    let of_ingresses = ingresses.add_handler({
        let (queue, services) = (queue.clone(), services.lister());
        move |event: &Event<Ingress>| {
            owners_of(event, &services, "Service", |_| Some(Selector::nothing()), |key| queue.add(key));
        }
    })?;
    factory.start(stop);
    if of_services.synced().await && of_ingresses.synced().await {
        let (services, ingresses) = (services.lister(), ingresses.lister());
        let events = context.recorder(IngressManager::NAME);
        let manager = IngressManager { client: client.clone(), services, ingresses, events };
        work(Arc::new(manager), &queue, context, stop).await;
    }
    of_services.remove();
    of_ingresses.remove();
    Ok(())
}

impl Reconcile for IngressManager {
    const NAME: &'static str = "ingress-manager";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(service) = self.services.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        let ingress = self.ingresses.namespace(key.namespace().clone()).get(key.name());
        let is_wanted = service.annotations().get(ANNOTATION) == Some("true") && !service.is_being_deleted();
        let api = Api::<Ingress>::namespaced(&self.client, key.namespace().clone());
        let is_ours = |ingress: &Ingress| owner::is_controlled_by(&ingress.metadata, &service.metadata);
        match ingress {
            // If the ingress already exists, the retry finds it in the cache with its owner.
            None if is_wanted => drop(api.create(&ingress_of(&service)).await?),
            Some(ingress) if !is_wanted && is_ours(&ingress) && !ingress.is_being_deleted() => {
                delete_exactly(&api, &*ingress).await?;
            }
            // A foreign ingress is not changed.
            Some(ingress) if is_wanted && !is_ours(&ingress) => {
                let message = format!("Ingress {:?} already exists and is not managed by this Service", key.name());
                self.events.warning(&*service, "ErrResourceExists", message);
                return Err(Error::NotControlled { object: format!("ingress {key}"), owner: format!("Service {key}") });
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Routes `/` to the first port of the service.
fn ingress_of(service: &Service) -> Ingress {
    let port = service.spec.as_ref().and_then(|spec| spec.ports.first()).map_or(80, |port| port.port);
    let backend = IngressServiceBackend {
        name: service.name().into(),
        port: Some(ServiceBackendPort { number: Some(port), ..Default::default() }.into()),
    };
    let path = HTTPIngressPath {
        path: Some("/".into()),
        path_type: "Prefix".into(),
        backend: IngressBackend { service: Some(backend.into()), ..Default::default() },
    };
    let rule = IngressRule {
        host: Some("example.com".into()),
        http: Some(HTTPIngressRuleValue { paths: [path].into() }.into()),
    };
    let mut ingress =
        Ingress { spec: Some(IngressSpec { rules: [rule].into(), ..Default::default() }), ..Default::default() };
    ingress.metadata.name = service.metadata.name.clone();
    ingress.metadata.namespace = service.metadata.namespace.clone();
    ingress.metadata.owner_references = [owner::new_controller_ref(&service.metadata, &SERVICE)].into();
    ingress
}
