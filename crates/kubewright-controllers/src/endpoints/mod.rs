//! `Endpoints` and endpoint slices of services.
//!
//! `backends` computes the addresses for both; `legacy` and `slices` write them. Slices have up to
//! a hundred endpoints. Endpoints of services without a selector are written by users; `mirror`
//! copies them to slices.

mod backends;
mod legacy;
mod mirror;
mod slices;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use kubewright_api::core::v1::{Endpoints as EndpointsObject, Pod, Service};
use kubewright_api::discovery::v1::EndpointSlice;
use kubewright_cache::{Event, InformerHandle, InformerScope, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, ObjectKey, Selector};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::claim::selects;
use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::own_writes::OwnWrites;
use crate::worker::{self, Reconcile, Synced, work};

struct Endpoints {
    client: Client,
    services: Lister<Service>,
    pods: Lister<Pod>,
    legacy: Lister<EndpointsObject>,
    slices: InformerHandle<EndpointSlice>,
    own_slices: OwnWrites,
    /// Deleted services whose endpoints must be deleted.
    gone: DeletedServices,
    mirror_events: EventRecorder,
}

/// Deleted services.
type DeletedServices = Arc<Mutex<HashSet<ObjectKey>>>;

/// Maintains endpoints and slices of services until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "EndpointController")]
#[doc(alias = "EndpointSliceController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Endpoints::NAME);
    let (services, pods) = (factory.informer::<Service>(), factory.informer::<Pod>());
    // Suppresses the deprecation warning for endpoints.
    let client = &client.clone().on_warning(|_| {});
    let legacy = factory.of_api(Api::<EndpointsObject>::all(client), InformerScope::default());
    let slices = factory.informer::<EndpointSlice>();
    indices::by_service(&slices, slices::SERVICE_NAME);
    let gone = DeletedServices::default();
    let of_services = services.add_handler({
        let (queue, gone) = (queue.clone(), gone.clone());
        move |event: &Event<Service>| {
            if matches!(event, Event::Deleted(_)) {
                gone.lock().unwrap_or_else(PoisonError::into_inner).insert(event.key());
            }
            queue.add(event.key());
        }
    })?;
    let of_pods = pods.add_handler({
        let (queue, services) = (queue.clone(), services.lister());
        move |event: &Event<Pod>| {
            let (before, after) = match event {
                _ if event.is_resync() => return,
                Event::Updated { old, new } => (Some(old), Some(new)),
                event => (None, event.object()),
            };
            for pod in before.into_iter().chain(after) {
                wake_services(pod, &services, |key| queue.add(key));
            }
        }
    })?;
    let of_legacy = legacy.add_handler({
        let queue = queue.clone();
        move |event: &Event<EndpointsObject>| queue.add(event.key())
    })?;
    let of_slices = slices.add_handler({
        let queue = queue.clone();
        move |event: &Event<EndpointSlice>| {
            if let Some(slice) = event.object()
                && let Some(service) = slice.labels().get(slices::SERVICE_NAME)
            {
                queue.add(ObjectKey::namespaced(slice.namespace(), service));
            }
        }
    })?;
    factory.start(stop);
    let registrations = [of_services, of_pods, of_legacy, of_slices];
    let mut have_synced = true;
    for registration in &registrations {
        have_synced &= registration.synced().await;
    }
    if have_synced {
        let reconcile = Endpoints {
            client: client.clone(),
            services: services.lister(),
            pods: pods.lister(),
            legacy: legacy.lister(),
            slices: slices.clone(),
            own_slices: OwnWrites::default(),
            gone,
            mirror_events: context.recorder("endpoint-slice-mirroring-controller"),
        };
        work(Arc::new(reconcile), &queue, context, stop).await;
    }
    registrations.iter().for_each(kubewright_cache::HandlerRegistration::remove);
    Ok(())
}

fn wake_services(pod: &Pod, services: &Lister<Service>, mut wake: impl FnMut(ObjectKey)) {
    for service in services.namespace(pod.namespace()).list(&Selector::everything()) {
        if selector(&service).is_some_and(|selector| selects(&selector, pod)) {
            wake(service.key());
        }
    }
}

/// The selector of a service; `None` if its endpoints are managed externally.
fn selector(service: &Service) -> Option<Selector> {
    let spec = service.spec.as_ref()?;
    let is_elsewhere = spec.type_.as_deref() == Some("ExternalName");
    if spec.selector.is_empty() || is_elsewhere { None } else { Selector::from_set(&spec.selector).ok() }
}

impl Reconcile for Endpoints {
    const NAME: &'static str = "endpoints";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(service) = self.services.namespace(key.namespace().clone()).get(key.name()) else {
            self.own_slices.forget(key);
            // Slices are garbage-collected with their service; mirrored ones have another owner,
            // which may stay.
            self.remove_mirrored(key).await?;
            return self.remove_legacy(key).await;
        };
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if service.spec.as_ref().is_none_or(|spec| spec.selector.is_empty()) {
            self.mirror(key).await?;
            return Ok(None);
        }
        self.remove_mirrored(key).await?;
        let Some(selector) = selector(&service).filter(|_| !service.is_being_deleted()) else { return Ok(None) };
        let pods = self.pods.namespace(key.namespace().clone()).list(&selector);
        let groups = backends::find(&service, &pods);
        self.write_legacy(&service, &groups).await?;
        self.write_slices(&service, &groups).await?;
        Ok(None)
    }
}
