//! One shard: who works on its keys, and how it is handed over.

use std::sync::Arc;

use kubewright_client::task::{Running, Tasks};
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::election::{LeaderElector, Leadership};

/// A shard that this replica owns.
#[derive(Clone)]
pub(super) struct Owned {
    leadership: Arc<Leadership>,
    runs: Tasks,
    /// Tells this ownership from those before it.
    pub(super) term: u64,
}

/// The right to work on one key. As long as it lives, the shard of the key is not handed over.
pub(crate) struct Permit {
    // Dropped before the count, so that nobody has it any more once no run is counted.
    leadership: Arc<Leadership>,
    _run: Running,
}

impl Permit {
    /// Resolves when the shard is lost, so that somebody else may work on the key soon. Cancel safe.
    #[inline]
    pub(crate) async fn lost(&self) {
        self.leadership.lost().await;
    }
}

impl Owned {
    /// The right to work on one of its keys, unless the lease has run out without anybody noticing.
    #[inline]
    pub(super) fn permit(&self) -> Option<Permit> {
        let run = self.runs.begin();
        self.leadership.is_leading().then(|| Permit { leadership: self.leadership.clone(), _run: run })
    }
}

/// Owns a shard whenever this replica should, until told to stop.
#[inline]
pub(super) async fn keep(inner: Arc<Inner>, shard: usize, mut elector: LeaderElector, stop: CancellationToken) {
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
        let owned = Owned { leadership: Arc::new(leadership), runs: Tasks::default(), term: inner.next_term() };
        inner.own(shard, Some(owned.clone()));
        // Also when this future is dropped: nobody would hand the shard over otherwise, and its
        // lease would be renewed for ever.
        let disown = Disown { inner: &inner, shard };
        tokio::select! {
            biased;
            () = owned.leadership.lost() => {}
            _ = unwanted.wait_for(|shards| shards.get(shard) != Some(&true)) => {}
            () = stop.cancelled() => {}
        }
        // No run begins from here on; those in hand end by themselves, or with the lease.
        drop(disown);
        owned.runs.ended().await;
        if let Some(leadership) = Arc::into_inner(owned.leadership).filter(Leadership::is_leading) {
            leadership.release().await;
        }
    }
}

/// Ends the ownership of a shard when dropped.
struct Disown<'a> {
    inner: &'a Inner,
    shard: usize,
}

impl Drop for Disown<'_> {
    #[inline]
    fn drop(&mut self) {
        self.inner.own(self.shard, None);
    }
}
