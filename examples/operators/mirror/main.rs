//! Mirrors ConfigMaps and Secrets from a source cluster into a target cluster.
//!
//! `cargo run -p kubewright-examples --example mirror -- TARGET_KUBECONFIG`
//!
//! Objects with the label `mirror.example.com/enabled=true` get a copy of the same namespace and
//! name in the target cluster. One controller has a client of each cluster: it watches the sources
//! in one and the copies in the other, so it repairs changed copies as well as it follows changed
//! sources.
//!
//! There are no finalizers: an unreachable target cluster must not block deletions in the source
//! cluster. A copy has a label with its origin instead. After a restart, the copies in the cache
//! lead to the sources that have disappeared in the meantime.

use std::time::Duration;

use kubewright::api::core::v1::{ConfigMap, Secret};
use kubewright::cache::{FactoryOptions, SharedInformerFactory};
use kubewright::client::config::{LoadingRules, Overrides};
use kubewright::meta::v1::ObjectMeta;
use kubewright::options::DeleteOptions;
use kubewright::runtime::events::{EventApi, EventRecorder};
use kubewright::runtime::{
    BoxError, Context, Freshness, Manager, ManagerOptions, Outcome, ResultExt, Watches, shutdown_on_signals,
};
use kubewright::{Client, Config, Kind, Namespaced, Object, Str};

/// The label by which a user asks for a copy.
const ENABLED: &str = "mirror.example.com/enabled";
/// The label of a copy. Objects of the target cluster without it are never changed.
const ORIGIN: &str = "mirror.example.com/origin";
/// The annotation of a copy with the uid of its source.
const SOURCE_UID: &str = "mirror.example.com/source-uid";
/// A name that is taken in the target cluster is tried again after this time.
const TAKEN_RETRY: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let shutdown = shutdown_on_signals();
    let source = Client::try_default().await?;
    let file = std::env::args().nth(1).ok_or("usage: mirror TARGET_KUBECONFIG")?;
    let target = Config::from_kubeconfig(&LoadingRules::explicit(file).load()?, &Overrides::default())?;
    Ok(manager(&source, &Client::try_from(target)?, "production")?.run(&shutdown).await?)
}

/// The operator. `origin` names the source cluster, which several mirrors of one target need.
pub fn manager(source: &Client, target: &Client, origin: &str) -> Result<Manager, BoxError> {
    let sources = FactoryOptions::default().labels(format!("{ENABLED}=true").parse()?);
    let mut manager = Manager::new(source, ManagerOptions::default().caches(sources));
    manager.elect_by_lease("mirror")?;

    let copies = FactoryOptions::default().labels(format!("{ORIGIN}={origin}").parse()?);
    let copies = manager.add_cluster(target, copies);
    let events = manager.recorder("mirror", EventApi::Events);
    let mirror = Mirror { target: target.clone(), origin: origin.into(), events };
    add::<ConfigMap>(&mut manager, &copies, &mirror)?;
    add::<Secret>(&mut manager, &copies, &mirror)?;
    Ok(manager)
}

/// Adds the controller of one kind.
fn add<K: Mirrored>(manager: &mut Manager, copies: &SharedInformerFactory, mirror: &Mirror) -> Result<(), BoxError> {
    let (plural, mirror) = (K::RESOURCE.plural, mirror.clone());
    let controller = manager
        .controller::<K>(plural)
        .watches_with(Watches::informer(plural, copies.informer::<K>(), |copy| [copy.key()]))
        .workers(4)
        // Called with keys instead of objects, because sources disappear.
        .reconciling_keys(move |context| {
            let mirror = mirror.clone();
            async move { mirror.reconcile::<K>(context).await }
        });
    manager.add(controller)?;
    Ok(())
}

/// The state that all reconciles share.
#[derive(Clone)]
struct Mirror {
    target: Client,
    origin: Str,
    events: EventRecorder,
}

impl Mirror {
    async fn reconcile<K: Mirrored>(&self, context: Context) -> Result<Outcome, BoxError> {
        let key = context.key();
        let sources = context.api::<K>(key.namespace());
        let copies = context.own(self.target.api::<K>(key.namespace()));
        // The cache has labelled objects only, so a missing one is looked up on the server.
        let source = sources.get(key.name(), Freshness::Cached).await?;
        let copy = copies.get(key.name(), Freshness::AtLeastMyWrites).await?;

        let Some(source) = source.filter(|source| source.labels().get(ENABLED) == Some("true")) else {
            if let Some(copy) = copy.filter(|copy| self.is_ours(&**copy)) {
                copies.delete_with(key.name(), &DeleteOptions::default().uid(copy.uid())).await?;
            }
            return Ok(Outcome::Done);
        };
        if let Some(copy) = copy.filter(|copy| self.is_ours(&**copy))
            && copy.annotations().get(SOURCE_UID) != Some(source.uid())
        {
            // The source was replaced. The type of a Secret, for example, cannot be updated. The
            // deletion of the copy leads to the next reconcile, which creates it again.
            copies.delete_with(key.name(), &DeleteOptions::default().uid(copy.uid())).await?;
            return Ok(Outcome::Done);
        }
        // On a conflict, somebody else has written in the meantime, and the key is retried.
        if let Err(error) = copies.create_or_update(key.name(), |copy| self.update(copy, &source)).await {
            self.events.warning(&*source, "NotMirrored", error.to_string());
            return Err(error);
        }
        Ok(Outcome::Done)
    }

    fn is_ours(&self, object: &impl Object) -> bool {
        object.labels().get(ORIGIN) == Some(&self.origin)
    }

    /// Makes `copy` a copy of `source`, unless it is an object of somebody else.
    fn update<K: Mirrored>(&self, copy: &mut K, source: &K) -> Result<(), BoxError> {
        let is_new = copy.uid().is_empty();
        if !is_new && !self.is_ours(copy) {
            // The cache does not show when the name becomes free.
            Err("the target cluster has another object of this name").retry_after(TAKEN_RETRY)?;
        }
        copy.metadata_mut().labels.insert(ORIGIN, self.origin.clone());
        copy.metadata_mut().annotations.insert(SOURCE_UID, source.uid().into());
        copy.take_content(source);
        Ok(())
    }
}

/// A kind that is mirrored.
pub trait Mirrored: Kind<Scope = Namespaced> + Default {
    /// The metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// Takes over everything but the metadata.
    fn take_content(&mut self, source: &Self);
}

impl Mirrored for ConfigMap {
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn take_content(&mut self, source: &Self) {
        *self = ConfigMap { metadata: std::mem::take(&mut self.metadata), ..source.clone() };
    }
}

impl Mirrored for Secret {
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn take_content(&mut self, source: &Self) {
        *self = Secret { metadata: std::mem::take(&mut self.metadata), ..source.clone() };
    }
}

#[cfg(test)]
mod tests;
