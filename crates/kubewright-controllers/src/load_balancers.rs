//! Gives services of the type `LoadBalancer` a simulated address.
//!
//! Nothing listens there. Addresses are of 198.18.0.0/15, which RFC 2544 reserves for tests of
//! network devices, so they cannot be mistaken for real ones.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use kubewright_api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, ObjectKey, Selector, finalizer};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{self, Reconcile, Synced, work};

/// Holds a service until its load balancer is released.
#[doc(alias = "LoadBalancerCleanupFinalizer")]
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The first address, and the number of addresses.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const ADDRESSES: u32 = (1 << 17) - 2;

struct LoadBalancers {
    client: Client,
    services: Lister<Service>,
    addresses: Mutex<Addresses>,
    events: EventRecorder,
}

/// Maintains the addresses of load balancers until `stop` is cancelled.
///
/// Services with a `loadBalancerClass` belong to another controller.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "ServiceController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, LoadBalancers::NAME);
    let services = factory.informer::<Service>();
    let of_services = services.add_handler({
        let queue = queue.clone();
        move |event: &Event<Service>| queue.add(event.key())
    })?;
    factory.start(stop);
    if of_services.synced().await {
        let mut addresses = Addresses::default();
        for service in services.lister().list(&Selector::everything()).iter() {
            if let Some(address) = address_of(service) {
                addresses.reserve(address, service.key());
            }
        }
        let controller = LoadBalancers {
            client: client.clone(),
            services: services.lister(),
            addresses: Mutex::new(addresses),
            events: context.recorder("service-controller"),
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_services.remove();
    Ok(())
}

impl Reconcile for LoadBalancers {
    const NAME: &'static str = "service-lb";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(service) = self.services.namespace(key.namespace().clone()).get(key.name()) else {
            self.addresses().release(key);
            return Ok(None);
        };
        if wants_load_balancer(&service) {
            self.ensure(&service).await?;
        } else if finalizer::contains_finalizer(&service.metadata, CLEANUP) {
            self.release(&service).await?;
        }
        Ok(None)
    }
}

impl LoadBalancers {
    /// Adds the finalizer, then the address.
    async fn ensure(&self, service: &Service) -> Result<(), Error> {
        let api = Api::<Service>::namespaced(&self.client, service.namespace());
        let mut changed = service.clone();
        if finalizer::add_finalizer(&mut changed.metadata, CLEANUP) {
            // The update is an event, which queues the service again.
            self.events.normal(service, "EnsuringLoadBalancer", "Ensuring load balancer");
            return ignore_gone(api.update(&changed).await);
        }
        if address_of(service).is_some() {
            return Ok(());
        }
        let spec = service.spec.as_ref();
        let requested = spec.and_then(|spec| spec.load_balancer_ip.as_deref()).and_then(|ip| ip.parse().ok());
        let Some(address) = requested.or_else(|| self.addresses().assign(&service.key())) else {
            let why = "Error syncing load balancer: all simulated addresses are in use";
            self.events.warning(service, "SyncLoadBalancerFailed", why);
            return Ok(());
        };
        set_addresses(&mut changed, Some(address));
        ignore_gone(api.update_status(&changed).await)?;
        self.events.normal(service, "EnsuredLoadBalancer", "Ensured load balancer");
        Ok(())
    }

    /// Removes the address, then the finalizer.
    async fn release(&self, service: &Service) -> Result<(), Error> {
        let api = Api::<Service>::namespaced(&self.client, service.namespace());
        let mut changed = service.clone();
        if address_of(service).is_some() && !service.is_being_deleted() {
            self.events.normal(service, "DeletingLoadBalancer", "Deleting load balancer");
            set_addresses(&mut changed, None);
            return ignore_gone(api.update_status(&changed).await);
        }
        finalizer::remove_finalizer(&mut changed.metadata, CLEANUP);
        ignore_gone(api.update(&changed).await)?;
        self.addresses().release(&service.key());
        self.events.normal(service, "DeletedLoadBalancer", "Deleted load balancer");
        Ok(())
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses in use. Several workers assign them, and the cache does not show their writes at once.
#[derive(Debug, Default)]
struct Addresses {
    owner_of: HashMap<Ipv4Addr, ObjectKey>,
    address_of: HashMap<ObjectKey, Ipv4Addr>,
    /// Where the search for a free address continues.
    next: u32,
}

impl Addresses {
    fn reserve(&mut self, address: Ipv4Addr, service: ObjectKey) {
        self.owner_of.insert(address, service.clone());
        self.address_of.insert(service, address);
    }

    /// The address of a service, or a free one. `None` if all are in use.
    fn assign(&mut self, service: &ObjectKey) -> Option<Ipv4Addr> {
        if let Some(known) = self.address_of.get(service) {
            return Some(*known);
        }
        if self.owner_of.len() >= ADDRESSES as usize {
            return None;
        }
        for _ in 0..ADDRESSES {
            let address = Ipv4Addr::from(u32::from(FIRST) + self.next);
            self.next = (self.next + 1) % ADDRESSES;
            if !self.owner_of.contains_key(&address) {
                self.reserve(address, service.clone());
                return Some(address);
            }
        }
        None
    }

    fn release(&mut self, service: &ObjectKey) {
        if let Some(address) = self.address_of.remove(service) {
            self.owner_of.remove(&address);
        }
    }
}

#[doc(alias = "WantsLoadBalancer")]
fn wants_load_balancer(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_ours = spec.is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && spec.load_balancer_class.as_deref().unwrap_or_default().is_empty()
    });
    is_ours && !service.is_being_deleted()
}

fn address_of(service: &Service) -> Option<Ipv4Addr> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.and_then(|status| status.ingress.iter().find_map(|ingress| ingress.ip.as_deref()?.parse().ok()))
}

fn set_addresses(service: &mut Service, address: Option<Ipv4Addr>) {
    let ingress = address.map(|address| LoadBalancerIngress {
        ip: Some(address.to_string().into()),
        ip_mode: Some("VIP".into()),
        ..LoadBalancerIngress::default()
    });
    let status = LoadBalancerStatus { ingress: ingress.into_iter().collect() };
    let former = service.status.take().unwrap_or_default();
    service.status = Some(ServiceStatus { load_balancer: Some(status.into()), ..former });
}

/// A service that is gone needs nothing.
fn ignore_gone<T>(written: kubewright_client::Result<T>) -> Result<(), Error> {
    match written {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_one_service_until_it_is_released() {
        let [a, b] = ["a", "b"].map(|name| ObjectKey::namespaced("default", name));
        let mut addresses = Addresses::default();
        addresses.reserve(FIRST, a.clone());
        let of_b = addresses.assign(&b).expect("a free one");
        assert_ne!(of_b, FIRST);
        assert_eq!(addresses.assign(&b), Some(of_b), "it stays");
        assert_eq!(addresses.assign(&a), Some(FIRST));
        addresses.release(&a);
        addresses.next = 0;
        assert_eq!(addresses.assign(&ObjectKey::namespaced("default", "c")), Some(FIRST));
    }
}
