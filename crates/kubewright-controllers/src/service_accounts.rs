//! Creates a service account `default` in each namespace.

use std::sync::Arc;

use kubewright_api::core::v1::{Namespace, ServiceAccount};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, ObjectKey};
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{self, Reconcile, Synced, work};

const DEFAULT: &str = "default";

struct ServiceAccounts {
    client: Client,
    namespaces: Lister<Namespace>,
    accounts: Lister<ServiceAccount>,
}

/// Maintains a service account `default` in each namespace until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "ServiceAccountsController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, ServiceAccounts::NAME);
    let (namespaces, accounts) = (factory.informer::<Namespace>(), factory.informer::<ServiceAccount>());
    let of_namespaces = namespaces.add_handler({
        let queue = queue.clone();
        move |event: &Event<Namespace>| queue.add(event.key())
    })?;
    let of_accounts = accounts.add_handler({
        let queue = queue.clone();
        move |event: &Event<ServiceAccount>| {
            if let Event::Deleted(deleted) = event
                && *deleted.key().name() == DEFAULT
            {
                queue.add(ObjectKey::cluster(deleted.key().namespace()));
            }
        }
    })?;
    factory.start(stop);
    if of_namespaces.synced().await && of_accounts.synced().await {
        let controller =
            ServiceAccounts { client: client.clone(), namespaces: namespaces.lister(), accounts: accounts.lister() };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_namespaces.remove();
    of_accounts.remove();
    Ok(())
}

impl Reconcile for ServiceAccounts {
    const NAME: &'static str = "service-accounts";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(namespace) = self.namespaces.get(key.name()) else { return Ok(None) };
        let is_there = self.accounts.namespace(key.name().clone()).get(DEFAULT).is_some();
        if is_there || namespace.is_being_deleted() {
            return Ok(None);
        }
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(DEFAULT.into());
        account.metadata.namespace = Some(key.name().clone());
        match Api::<ServiceAccount>::namespaced(&self.client, key.name().clone()).create(&account).await {
            Err(error) if !error.is_already_exists() && !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }
}
