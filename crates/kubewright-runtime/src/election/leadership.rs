//! Leadership as a value.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, sync::Arc};

use kubewright_core::ResourceVersion;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Distinguishes a leadership from earlier ones.
///
/// A store that remembers the highest version it was written with can reject a former leader that
/// does not know yet that it lost leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencingToken {
    /// How often the lease has changed hands. Restarts if the lease is deleted and acquired by a
    /// candidate that had not seen it.
    pub transitions: i32,
    /// The version of the lease when leadership began, which only grows.
    pub version: ResourceVersion,
}

/// Leadership while the lease is held.
///
/// A background task renews the lease. If renewals fail for too long, [`lost`](Self::lost) resolves
/// before another candidate can lead. If the lease was changed externally, it resolves immediately.
///
/// Dropping it ends leadership and lets the lease expire, since the leader's work may still be
/// running. [`release`](Self::release) frees the lease immediately; call it when all work has
/// ended.
#[must_use = "leadership ends when this is dropped"]
pub struct Leadership {
    pub(super) term: Arc<LeadershipTerm>,
    pub(super) token: FencingToken,
    /// Cancelled when the renewal task has ended, and the lease has been released.
    pub(super) ended: CancellationToken,
}

/// One leadership, shared by its holder and the renewal task.
#[derive(Debug)]
pub(super) struct LeadershipTerm {
    /// Cancelled when leadership is lost, or given up.
    pub(super) over: CancellationToken,
    /// Whether the holder's work has ended, so that the lease may be released.
    pub(super) is_released: AtomicBool,
    epoch: Instant,
    /// Until when no other candidate can lead, in nanoseconds since the epoch.
    valid_until: AtomicU64,
}

impl LeadershipTerm {
    #[inline]
    pub(super) fn new() -> Self {
        LeadershipTerm {
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
    /// Whether this process leads now. Reads the clock, so it is right even after the process was
    /// suspended.
    #[inline]
    pub fn is_leading(&self) -> bool {
        self.term.is_leading()
    }

    /// Until when no other candidate can lead, if no further renewal succeeds.
    #[inline]
    pub fn valid_until(&self) -> Instant {
        self.term.valid_until()
    }

    /// The fencing token of this leadership.
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

    /// Runs `work` while leadership lasts; `None` if it was lost first, and the work dropped.
    pub async fn while_leading<R>(&self, work: impl Future<Output = R>) -> Option<R> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            result = work => Some(result),
        }
    }

    /// Ends leadership and releases the lease, unless the options disable that. Returns when it is
    /// done. Call it when all work of the leader has ended.
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
