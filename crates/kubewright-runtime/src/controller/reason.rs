//! Why a reconcile runs: everything that happened since the one before.

use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use kubewright_core::{ObjectKey, Str};

/// So many different reasons are told apart; more are only counted.
const LIMIT: usize = 16;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason {
    /// Where: the resource, as `deployments.apps`, or the name of another source.
    pub source: Str,
    /// To which object, where there is one.
    pub object: Option<ObjectKey>,
    /// What.
    pub change: Change,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// It was there when the controller began.
    Listed,
    /// It came.
    Added,
    /// It changed.
    Updated,
    /// It did not change, but the cache reminds of it.
    Reminded,
    /// It went.
    Deleted,
    /// Somebody asked for it: a channel, a timer, or a handle.
    Requested,
    /// The reconcile before asked for it.
    Requeued,
    /// The reconcile before failed.
    Retried,
    /// This replica got the shard of the key.
    TakenOver,
}

impl fmt::Display for Reason {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Listed => "listed",
            Change::Added => "added",
            Change::Updated => "updated",
            Change::Reminded => "reminded",
            Change::Deleted => "deleted",
            Change::Requested => "requested",
            Change::Requeued => "requeued",
            Change::Retried => "retried",
            Change::TakenOver => "taken over",
        };
        match &self.object {
            Some(object) => write!(f, "{} {object} {change}", self.source),
            None => write!(f, "{} {change}", self.source),
        }
    }
}

/// Everything that a reconcile answers for. Empty if it was planned earlier, and its reasons told to the run before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons {
    /// The first lies apart, because most reconciles have one.
    first: Option<Reason>,
    more: Vec<Reason>,
    total: usize,
}

impl Reasons {
    /// The different reasons in the order in which they came, the first sixteen of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Reason> {
        (0..self.different()).map(|index| self.at(index))
    }

    /// How often something happened, the same thing counted each time.
    pub fn total(&self) -> usize {
        self.total
    }

    fn add(&mut self, reason: Reason) {
        self.total += 1;
        if self.first.is_none() {
            self.first = Some(reason);
        } else if self.different() < LIMIT && !self.iter().any(|other| *other == reason) {
            self.more.push(reason);
        }
    }

    fn different(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    fn at(&self, index: usize) -> &Reason {
        match &self.first {
            Some(first) if index == 0 => first,
            _ => &self.more[index - 1],
        }
    }
}

impl fmt::Display for Reasons {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{reason}")?;
        }
        Ok(())
    }
}

/// Reasons of keys that wait for a worker.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<HashMap<ObjectKey, Reasons>>);

impl Pending {
    /// To be called before the key is added to the queue, so that whoever gets the key finds the reason.
    pub(crate) fn add(&self, key: &ObjectKey, reason: Reason) {
        match self.lock().entry(key.clone()) {
            Entry::Occupied(mut reasons) => reasons.get_mut().add(reason),
            Entry::Vacant(none) => {
                none.insert(Reasons { first: Some(reason), more: Vec::new(), total: 1 });
            }
        }
    }

    pub(crate) fn take(&self, key: &ObjectKey) -> Reasons {
        self.lock().remove(key).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Reasons>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_told_once_and_counted_each_time() {
        let pending = Pending::default();
        let key = ObjectKey::namespaced("default", "web");
        for change in [Change::Added, Change::Updated, Change::Updated] {
            pending.add(&key, Reason { source: "pods".into(), object: Some(key.clone()), change });
        }
        let reasons = pending.take(&key);
        assert_eq!(reasons.to_string(), "pods default/web added, pods default/web updated");
        assert_eq!(reasons.total(), 3);
        assert_eq!(pending.take(&key), Reasons::default());
    }

    #[test]
    fn a_flood_of_reasons_is_only_counted() {
        let pending = Pending::default();
        let key = ObjectKey::cluster("all");
        for number in 0..1000 {
            let object = Some(ObjectKey::cluster(format!("{number}")));
            pending.add(&key, Reason { source: "nodes".into(), object, change: Change::Updated });
        }
        let reasons = pending.take(&key);
        assert_eq!((reasons.iter().len(), reasons.total()), (LIMIT, 1000));
    }
}
