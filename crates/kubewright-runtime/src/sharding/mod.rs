//! Sharding: several active replicas, each with a share of the keys.
//!
//! Keys are hashed into a fixed number of shards, and each shard has a lease: its holder works on
//! the keys of the shard, under the rules of leader election. Replicas announce themselves with
//! leases, and all of them compute the owner of each shard by rendezvous hashing. A replica with a
//! shard that another should own finishes its running reconciles, and only then releases the lease;
//! a dead replica is detected when its lease expires. In between no replica works on those keys;
//! never do two.
//!
//! A replica that acquires a shard reconciles all its objects. Deletions while a shard has no owner
//! are not reported, as for a controller that starts later; use finalizers.
//!
//! Each replica watches all objects and ignores those of other shards. With [`Sharding::informer`]
//! it watches only its share: servers shard by uid (KEP-5866), so shards are then by uid instead of
//! by key.

mod hash;
mod members;
mod shard;
mod share;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use kubewright_api::coordination::v1::Lease;
use kubewright_cache::{InformerHandle, InformerScope, SharedIndexInformer, SharedInformerFactory};
use kubewright_client::{Api, Client};
use kubewright_core::options::ListOptions;
use kubewright_core::selector::Requirement;
use kubewright_core::{GroupResource, Kind, Map, Object, ObjectKey, ResourceVersion, Selector, Str};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::election::{ElectionMetrics, InvalidElection, LeaderElectionOptions, LeaderElector, Leadership};
use members::Members;
use shard::OwnedShard;
pub(crate) use shard::Permit;
use share::{Cover, ShareListWatch, Terms};

/// The label of replica leases with the name of their group.
const GROUP_LABEL: &str = "kubewright.io/sharding-group";

/// One replica of a sharding group. Clones are the same replica.
///
/// Passed to controllers with [`Controller::sharded`](crate::Controller::sharded), and run by
/// [`Manager::share`](crate::Manager::share), or separately.
#[derive(Clone)]
pub struct Sharding {
    inner: Arc<ShardingInner>,
}

struct ShardingInner {
    client: Client,
    namespace: Str,
    name: Str,
    identity: Str,
    /// Selects the leases of replicas.
    group: Selector,
    options: LeaderElectionOptions,
    /// For electors whose options have none.
    metrics: OnceLock<ElectionMetrics>,
    /// The shards that this replica owns, by number.
    owned: RwLock<Vec<Option<OwnedShard>>>,
    terms: AtomicU64,
    /// Incremented when a shard is acquired or lost.
    changes: watch::Sender<u64>,
    /// For each shard, whether this replica should own it.
    wanted: watch::Sender<Vec<bool>>,
    /// Informers that watch only the share.
    covered: RwLock<Vec<Covered>>,
}

/// An informer of the share.
struct Covered {
    /// The address of the informer's store, which identifies it while it exists.
    informer: usize,
    resource: Str,
    /// The last list of the informer. Dropped with the informer.
    cover: Weak<Cover>,
}

/// Whether a key may be reconciled.
pub(crate) enum Permission {
    /// Yes.
    Granted(Permit),
    /// Once its shard has been listed.
    NotYet,
    /// It belongs to another replica, or to none.
    Denied,
}

impl Sharding {
    /// A replica with this identity in the group of this name, whose leases are in `namespace`.
    ///
    /// All replicas must use the same number of `shards`, and different identities. More shards are
    /// distributed more evenly but cost more renewals; a few per replica are enough. To change the
    /// number, stop all replicas first.
    ///
    /// # Errors
    /// If the durations leave no time to step down, or the identity is empty.
    pub fn new(
        client: &Client,
        namespace: impl Into<Str>,
        name: impl Into<Str>,
        identity: impl Into<Str>,
        shards: usize,
        options: LeaderElectionOptions,
    ) -> Result<Self, InvalidElection> {
        let name = name.into();
        let of_group = Requirement::equals(GROUP_LABEL, name.clone()).map_err(|_| InvalidElection::NotALabel)?;
        let inner = ShardingInner {
            client: client.clone(),
            namespace: namespace.into(),
            name,
            group: Selector::everything().with(of_group),
            identity: identity.into(),
            options,
            metrics: OnceLock::new(),
            owned: RwLock::new((0..shards.max(1)).map(|_| None).collect()),
            terms: AtomicU64::new(0),
            changes: watch::Sender::new(0),
            wanted: watch::Sender::default(),
            covered: RwLock::default(),
        };
        // Reports invalid options here, and not when it runs.
        inner.elector(&inner.replica())?;
        Ok(Sharding { inner: Arc::new(inner) })
    }

    /// Exposes the elections of its shards in these metrics, unless the options name others.
    #[inline]
    pub(crate) fn default_metrics(&self, metrics: &ElectionMetrics) {
        self.inner.metrics.get_or_init(|| metrics.clone());
    }

    /// The shard of a key; the same for all replicas.
    #[inline]
    pub fn shard_of(&self, key: &ObjectKey) -> usize {
        hash::shard_of(key, self.inner.owned().len())
    }

    /// An informer of the objects in this replica's shards, for
    /// [`Controller::over`](crate::Controller::over).
    ///
    /// Servers of 1.36 with the feature gate `ShardedListAndWatch` send only those; otherwise other
    /// objects are filtered here. Shards are then ranges of uids, so all replicas must use this for
    /// a type, or none. When shards change, the share is listed again. Deleted objects are not
    /// reported, not even to reconcilers of keys: only an existing object has a uid. Owned objects
    /// have other uids than their owners, and are watched completely. If a factory watches several
    /// namespaces, nothing is filtered, and shards are by key.
    ///
    /// ```
    /// # use kubewright_api::core::v1::Pod;
    /// # use kubewright_client::Client;
    /// # use kubewright_core::Kind;
    /// # use kubewright_runtime::election::LeaderElectionOptions;
    /// # use kubewright_runtime::{Controller, Manager, ManagerOptions, Outcome, Sharding};
    /// # fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut manager = Manager::new(client, ManagerOptions::default());
    /// let sharding = Sharding::new(client, "default", "pods", "replica-1", 16, LeaderElectionOptions::default())?;
    /// let share = sharding.informer::<Pod>(manager.factory(), Default::default());
    /// let controller = Controller::over("pods", manager.factory(), share, Pod::RESOURCE);
    /// manager.add(controller.reconciling(|_pod, _context| async { Ok(Outcome::Done) }))?;
    /// manager.share(&sharding);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "ShardSelector")]
    pub fn informer<T: Kind>(&self, factory: &SharedInformerFactory, which: InformerScope<T>) -> InformerHandle<T> {
        let (inner, cover) = (self.inner.clone(), Arc::new(Cover::default()));
        let (name, resource) = (format!("shards of {} as {}", inner.name, inner.identity), name_of::<T>());
        let covered = Arc::downgrade(&cover);
        let share = factory.informer_with(which.wrap(name, |source| ShareListWatch {
            inner,
            cover,
            source,
            listing: Mutex::default(),
        }));
        // If such an informer existed already it has its own cover, and this one was dropped.
        self.inner.covers(Covered { informer: place_of(&share), resource, cover: covered });
        share
    }

    /// Whether the server filters the share of [`informer`](Self::informer); `None` before the
    /// first list.
    #[doc(alias = "ShardInfo")]
    pub fn is_cut_by_server<T: Kind>(&self) -> Option<bool> {
        let covered = self.inner.covered();
        let of_type = covered.iter().filter(|covered| covered.resource == name_of::<T>());
        let cut = of_type.filter_map(|covered| covered.cover.upgrade()?.is_cut_by_server());
        cut.reduce(|one, other| one && other)
    }

    /// The shards that this replica owns now.
    #[inline]
    pub fn owned_shards(&self) -> Vec<usize> {
        let owned = self.inner.owned();
        owned.iter().enumerate().filter(|(_, owned)| owned.is_some()).map(|(shard, _)| shard).collect()
    }

    /// Participates until `stop` is cancelled. Returns when running reconciles have ended and all
    /// leases are released, at the latest when these have expired.
    ///
    /// # Errors
    /// If the election options are invalid, which [`new`](Self::new) has ruled out.
    #[inline]
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), InvalidElection> {
        let inner = &self.inner;
        let mut shards = JoinSet::new();
        let count = inner.owned().len();
        for shard in 0..count {
            let elector = inner.elector(&format!("shard-{shard}"))?;
            shards.spawn(shard::keep(inner.clone(), shard, elector, stop.clone()));
        }
        let mut membership = inner.elector(&inner.replica())?;
        let announcing = async {
            // A replica's own lease is lost only if the server is unreachable, and then acquired
            // again.
            let mut leadership: Option<Leadership> = None;
            while !stop.is_cancelled() {
                leadership = membership.acquire(stop).await;
                if let Some(leadership) = &leadership {
                    stop.run_until_cancelled(leadership.lost()).await;
                }
            }
            leadership
        };
        let (announced, ()) = tokio::join!(announcing, inner.follow(count, stop));
        while shards.join_next().await.is_some() {}
        if let Some(leadership) = announced {
            leadership.release().await;
        }
        Ok(())
    }

    /// The permit for `key`, if this replica owns its shard.
    #[inline]
    pub(crate) fn permit(&self, key: &ObjectKey) -> Option<Permit> {
        let owned = self.inner.owned();
        owned[hash::shard_of(key, owned.len())].as_ref()?.permit()
    }

    /// The permission for an object of this uid in an informer of the share, at this version of its
    /// cache. `None` if the informer watches all objects.
    pub(crate) fn right_by_uid<T: Object>(
        &self,
        informer: &SharedIndexInformer<T>,
        uid: Option<&str>,
        cache: &ResourceVersion,
    ) -> Option<Permission> {
        let cover = self.cover_of(informer)?;
        Some(uid.map_or(Permission::Denied, |uid| cover.right(&self.inner, uid, cache)))
    }

    /// Whether an informer watches only the share.
    pub(crate) fn watches_share<T: Object>(&self, informer: &SharedIndexInformer<T>) -> bool {
        self.cover_of(informer).is_some()
    }

    fn cover_of<T: Object>(&self, informer: &SharedIndexInformer<T>) -> Option<Arc<Cover>> {
        let place = place_of(informer);
        let covered = self.inner.covered();
        covered.iter().filter(|covered| covered.informer == place).find_map(|covered| covered.cover.upgrade())
    }

    /// Calls `gained` for each shard that this replica acquires, including those that it already
    /// owns.
    pub(crate) async fn tell(&self, mut gained: impl FnMut(&dyn Fn(&ObjectKey) -> bool)) {
        let mut changes = self.inner.changes.subscribe();
        changes.mark_changed();
        let mut told = Terms::new();
        while changes.changed().await.is_ok() {
            let terms = self.inner.terms();
            let is_new = |shard: usize| terms[shard].is_some() && told.get(shard) != Some(&terms[shard]);
            if (0..terms.len()).any(is_new) {
                gained(&|key| is_new(hash::shard_of(key, terms.len())));
            }
            told = terms;
        }
    }
}

impl ShardingInner {
    /// The name of this replica's own lease. Identities may not be valid names.
    #[inline]
    fn replica(&self) -> String {
        format!("replica-{:016x}", hash::of_text(&self.identity))
    }

    /// A candidate for the lease of this name.
    #[inline]
    fn elector(&self, name: &str) -> Result<LeaderElector, InvalidElection> {
        let lease = ObjectKey::namespaced(self.namespace.clone(), format!("{}-{name}", self.name));
        let is_replica = name.starts_with("replica");
        let labels = if is_replica { Map::from([(GROUP_LABEL, self.name.clone())]) } else { Map::new() };
        let elector =
            LeaderElector::labelled(&self.client, lease, self.identity.clone(), labels, self.options.clone())?;
        if let Some(metrics) = self.metrics.get() {
            elector.default_metrics(metrics);
        }
        Ok(elector)
    }

    /// Follows the membership, and computes which shards this replica should own.
    #[inline]
    async fn follow(&self, shards: usize, stop: &CancellationToken) {
        let leases = Api::<Lease>::namespaced(
            &self.client.clone().request_timeout(self.options.request_timeout()),
            self.namespace.clone(),
        );
        let options = ListOptions::default().labels(self.group.clone());
        let mut members = Members::default();
        loop {
            match stop.run_until_cancelled(members.look(&leases, &options)).await {
                None => return,
                Some(Ok(alive)) => {
                    let is_mine =
                        |shard| hash::owner_of(shard, alive.iter().map(|member| &**member)) == Some(&*self.identity);
                    let wanted: Vec<bool> = (0..shards).map(is_mine).collect();
                    self.wanted.send_if_modified(|before| {
                        let is_news = *before != wanted;
                        *before = wanted;
                        is_news
                    });
                }
                // Leases continue as they are; ownership does not change in the meantime.
                Some(Err(error)) => tracing::warn!(group = %self.name, %error, "cannot list the replicas"),
            }
            if stop.run_until_cancelled(sleep(self.options.retry_period)).await.is_none() {
                return;
            }
        }
    }

    #[inline]
    fn owned(&self) -> std::sync::RwLockReadGuard<'_, Vec<Option<OwnedShard>>> {
        self.owned.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn own(&self, shard: usize, owned: Option<OwnedShard>) {
        tracing::info!(group = %self.name, identity = %self.identity, shard, is_owned = owned.is_some(), "shard");
        self.owned.write().unwrap_or_else(PoisonError::into_inner)[shard] = owned;
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The owned shards with their terms.
    #[inline]
    fn terms(&self) -> Terms {
        self.owned().iter().map(|owned| owned.as_ref().map(|owned| owned.term)).collect()
    }

    #[inline]
    fn covered(&self) -> std::sync::RwLockReadGuard<'_, Vec<Covered>> {
        self.covered.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn covers(&self, informer: Covered) {
        let mut covered = self.covered.write().unwrap_or_else(PoisonError::into_inner);
        covered.push(informer);
        covered.retain(|covered| covered.cover.strong_count() > 0);
    }

    #[inline]
    fn next_term(&self) -> u64 {
        self.terms.fetch_add(1, Ordering::Relaxed)
    }
}

/// The address of an informer's store.
fn place_of<T: Object>(informer: &SharedIndexInformer<T>) -> usize {
    std::ptr::from_ref(informer.store()).addr()
}

/// The name of a resource in relations of controllers.
fn name_of<T: Kind>() -> Str {
    GroupResource::new(T::RESOURCE.kind.group, T::RESOURCE.plural).to_string().into()
}

impl fmt::Debug for Sharding {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sharding");
        shown.field("group", &self.inner.name).field("identity", &self.inner.identity);
        shown.field("owned", &self.owned_shards()).finish_non_exhaustive()
    }
}
