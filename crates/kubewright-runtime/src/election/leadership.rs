//! Leadership as a value that ends by itself.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, sync::Arc};

use kubewright_core::ResourceVersion;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Tells one leadership from those before it.
///
/// A store that remembers the highest version it was written with can refuse a leader of the past, who may not know yet
/// that it is none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencingToken {
    /// How often the lease had changed hands. Starts anew if somebody deletes the lease, and one takes it who has not seen it before.
    pub transitions: i32,
    /// The version of the lease when leadership began, which only grows.
    pub version: ResourceVersion,
}

/// The right to act, as long as the lease is held.
///
/// Renewals go on by themselves. When they fail for too long [`lost`](Self::lost) resolves, before anybody else can lead. When
/// the lease is seen to be another's or nobody's, because somebody has changed it, it resolves at once.
///
/// Dropping it ends leadership and lets the lease expire, since the work of the leader may still
/// run. [`release`](Self::release) frees the lease at once; call it when all work has ended.
#[must_use = "leadership ends when this is dropped"]
pub struct Leadership {
    pub(super) term: Arc<Term>,
    pub(super) token: FencingToken,
    /// Cancelled when the task that renews has ended, and the lease has been released.
    pub(super) ended: CancellationToken,
}

/// One leadership, as seen by its holder and by the task that renews.
#[derive(Debug)]
pub(super) struct Term {
    /// Cancelled when leadership is lost, or given up.
    pub(super) over: CancellationToken,
    /// Whether the holder has said that its work has ended, so that the lease may be freed.
    pub(super) is_released: AtomicBool,
    epoch: Instant,
    /// Until when it is certain that nobody else leads, in nanoseconds since the epoch.
    valid_until: AtomicU64,
}

impl Term {
    #[inline]
    pub(super) fn new() -> Self {
        Term {
            over: CancellationToken::new(),
            is_released: AtomicBool::new(false),
            epoch: Instant::now(),
            valid_until: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn extend(&self, until: Instant) {
        let nanoseconds = until.saturating_duration_since(self.epoch).as_nanos();
        self.valid_until.fetch_max(u64::try_from(nanoseconds).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn valid_until(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.valid_until.load(Ordering::SeqCst))
    }

    #[inline]
    pub(super) fn is_leading(&self) -> bool {
        !self.over.is_cancelled() && Instant::now() < self.valid_until()
    }
}

impl Leadership {
    /// Whether this process leads right now. Asks the clock, so that it is right even if the process stood still.
    #[inline]
    pub fn is_leading(&self) -> bool {
        self.term.is_leading()
    }

    /// Until when nobody else can lead, should no renewal succeed from now on.
    #[inline]
    pub fn valid_until(&self) -> Instant {
        self.term.valid_until()
    }

    /// What tells this leadership from those before it.
    #[inline]
    pub fn fencing_token(&self) -> &FencingToken {
        &self.token
    }

    /// Resolves when leadership has ended. Cancel safe.
    #[inline]
    pub async fn lost(&self) {
        loop {
            let until = self.valid_until();
            tokio::select! {
                biased;
                () = self.term.over.cancelled() => return,
                () = sleep_until(until) => {
                    if self.valid_until() <= until {
                        return;
                    }
                }
            }
        }
    }

    /// Does `work` as long as leadership lasts; `None` if it was lost first, and the work dropped.
    #[inline]
    pub async fn while_leading<R>(&self, work: impl Future<Output = R>) -> Option<R> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            result = work => Some(result),
        }
    }

    /// Ends leadership and frees the lease, unless the options say that it expires. Returns when
    /// that is done. For a leader all of whose work has ended.
    #[inline]
    pub async fn release(self) {
        self.term.is_released.store(true, Ordering::SeqCst);
        self.term.over.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Leadership {
    #[inline]
    fn drop(&mut self) {
        self.term.over.cancel();
    }
}

impl fmt::Debug for Leadership {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Leadership");
        shown.field("is_leading", &self.is_leading()).field("token", &self.token).finish_non_exhaustive()
    }
}
