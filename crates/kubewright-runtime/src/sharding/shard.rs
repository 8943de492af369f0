//! Ownership and handover of one shard.

use std::sync::Arc;

use kubewright_client::task::{TaskGuard, Tasks};
use tokio_util::sync::CancellationToken;

use super::ShardingInner;
use crate::election::{LeaderElector, Leadership};

/// A shard that this replica owns.
#[derive(Clone)]
pub(super) struct OwnedShard {
    leadership: Arc<Leadership>,
    runs: Tasks,
    /// Distinguishes this ownership from earlier ones.
    pub(super) term: u64,
}

/// The permit to work on one key. While it exists, the shard of the key is not handed over.
pub(crate) struct Permit {
    // Dropped before the counter, so that it is released once no run is counted.
    leadership: Arc<Leadership>,
    _run: TaskGuard,
}

impl Permit {
    /// Resolves when the shard is lost, so that another replica may soon work on the key. Cancel
    /// safe.
    #[inline]
    pub(crate) async fn lost(&self) {
        self.leadership.lost().await;
    }
}

impl OwnedShard {
    /// A permit for one of its keys, unless the lease has expired unnoticed.
    #[inline]
    pub(super) fn permit(&self) -> Option<Permit> {
        let run = self.runs.begin();
        self.leadership.is_leading().then(|| Permit { leadership: self.leadership.clone(), _run: run })
    }
}

/// Owns a shard whenever this replica should, until told to stop.
#[inline]
pub(super) async fn keep(inner: Arc<ShardingInner>, shard: usize, mut elector: LeaderElector, stop: CancellationToken) {
    let mut wanted = inner.wanted.subscribe();
    loop {
        let is_wanted = wanted.wait_for(|shards| shards.get(shard) == Some(&true));
        let Some(Ok(_)) = stop.run_until_cancelled(is_wanted).await else { return };
        let mut unwanted = wanted.clone();
        let leadership = tokio::select! {
            biased;
            _ = unwanted.wait_for(|shards| shards.get(shard) != Some(&true)) => continue,
            leadership = elector.acquire(&stop) => leadership,
        };
        let Some(leadership) = leadership else { return };
        let owned = OwnedShard { leadership: Arc::new(leadership), runs: Tasks::default(), term: inner.next_term() };
        inner.own(shard, Some(owned.clone()));
        // Also on drop of this future: otherwise the shard would never be handed over, and its
        // lease renewed forever.
        let disown = Disown { inner: &inner, shard };
        tokio::select! {
            biased;
            () = owned.leadership.lost() => {}
            _ = unwanted.wait_for(|shards| shards.get(shard) != Some(&true)) => {}
            () = stop.cancelled() => {}
        }
        // No reconcile starts from here on; running ones end by themselves, or with the lease.
        drop(disown);
        owned.runs.ended().await;
        if let Some(leadership) = Arc::into_inner(owned.leadership).filter(Leadership::is_leading) {
            leadership.release().await;
        }
    }
}

/// Ends the ownership of a shard on drop.
struct Disown<'a> {
    inner: &'a ShardingInner,
    shard: usize,
}

impl Drop for Disown<'_> {
    #[inline]
    fn drop(&mut self) {
        self.inner.own(self.shard, None);
    }
}
