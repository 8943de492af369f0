//! Expected creations and deletions of a controller.
//!
//! For controllers that create and delete many objects in a batch and count them in a cache: until
//! the cache shows the batch, its count is wrong. [`OwnApi`](crate::OwnApi) is simpler: there a key
//! waits for its writes.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// Expectations time out after this.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Expected creations and deletions, by the key of the controller's object.
///
/// Deletions are tracked by uid: setting the deletion timestamp and the final deletion count once.
///
/// ```
/// use kubewright_core::ObjectKey;
/// use kubewright_runtime::Expectations;
/// let (expectations, key) = (Expectations::new(), ObjectKey::namespaced("default", "web"));
/// expectations.expect_creations(&key, 2);
/// expectations.creation_observed(&key);
/// assert!(!expectations.is_satisfied(&key));
/// expectations.creation_observed(&key);
/// assert!(expectations.is_satisfied(&key));
/// ```
#[derive(Debug, Default)]
#[doc(alias = "ControllerExpectations")]
#[doc(alias = "UIDTrackingControllerExpectations")]
pub struct Expectations {
    expected_of: Mutex<HashMap<ObjectKey, Expected>>,
}

#[derive(Debug)]
struct Expected {
    creations: i64,
    deletions: HashSet<Str>,
    since: Instant,
}

impl Expectations {
    /// No expectations.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects this many creations, replacing previous expectations.
    #[doc(alias = "ExpectCreations")]
    #[inline]
    pub fn expect_creations(&self, key: &ObjectKey, count: usize) {
        self.expect(key, i64::try_from(count).unwrap_or(i64::MAX), HashSet::new());
    }

    /// Expects the deletion of objects with these uids, replacing previous expectations.
    #[doc(alias = "ExpectDeletions")]
    pub fn expect_deletions(&self, key: &ObjectKey, uids: impl IntoIterator<Item = Str>) {
        self.expect(key, 0, uids.into_iter().collect());
    }

    #[inline]
    fn expect(&self, key: &ObjectKey, creations: i64, deletions: HashSet<Str>) {
        let expected = Expected { creations, deletions, since: Instant::now() };
        self.change(|expected_of| expected_of.insert(key.clone(), expected));
    }

    /// A creation was observed, or failed.
    #[doc(alias = "CreationObserved")]
    #[inline]
    pub fn creation_observed(&self, key: &ObjectKey) {
        self.lower_creations(key, 1);
    }

    /// This many creations will not happen, because they were never attempted.
    #[doc(alias = "LowerExpectations")]
    #[inline]
    pub fn lower_creations(&self, key: &ObjectKey, count: usize) {
        self.change(|expected_of| {
            if let Some(expected) = expected_of.get_mut(key) {
                expected.creations = expected.creations.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
            }
        });
    }

    /// The deletion of an object of this uid was observed, or failed. Idempotent.
    #[doc(alias = "DeletionObserved")]
    #[inline]
    pub fn deletion_observed(&self, key: &ObjectKey, uid: &str) {
        self.change(|expected_of| {
            if let Some(expected) = expected_of.get_mut(key) {
                expected.deletions.remove(uid);
            }
        });
    }

    /// Whether all expectations are met, or have timed out after 5 minutes.
    #[doc(alias = "SatisfiedExpectations")]
    #[inline]
    pub fn is_satisfied(&self, key: &ObjectKey) -> bool {
        self.change(|expected_of| {
            expected_of.get(key).is_none_or(|expected| {
                let is_fulfilled = expected.creations <= 0 && expected.deletions.is_empty();
                is_fulfilled || expected.since.elapsed() > TIMEOUT
            })
        })
    }

    /// Drops the expectations of a deleted object.
    #[doc(alias = "DeleteExpectations")]
    #[inline]
    pub fn forget(&self, key: &ObjectKey) {
        self.change(|expected_of| expected_of.remove(key));
    }

    fn change<R>(&self, change: impl FnOnce(&mut HashMap<ObjectKey, Expected>) -> R) -> R {
        change(&mut self.expected_of.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deletions_count_once_and_expectations_expire() {
        // RS-2
        let (expectations, key) = (Expectations::new(), ObjectKey::cluster("web"));
        assert!(expectations.is_satisfied(&key));
        expectations.expect_deletions(&key, ["a".into(), "b".into()]);
        expectations.deletion_observed(&key, "a");
        expectations.deletion_observed(&key, "a");
        assert!(!expectations.is_satisfied(&key));
        expectations.deletion_observed(&key, "b");
        assert!(expectations.is_satisfied(&key));
        expectations.expect_creations(&key, 5);
        expectations.lower_creations(&key, 4);
        assert!(!expectations.is_satisfied(&key));
        sleep(TIMEOUT + Duration::from_secs(1)).await;
        assert!(expectations.is_satisfied(&key));
        expectations.forget(&key);
        expectations.creation_observed(&key);
        assert!(expectations.is_satisfied(&key));
    }
}
