//! Reasons of a reconcile.

use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use kubewright_core::{ObjectKey, Str};
use tracing::Span;

use super::trace::KeyTrace;

/// Maximum number of distinct reasons; further ones are only counted.
const LIMIT: usize = 16;

/// An event that led to a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason {
    /// The source: the resource, such as `deployments.apps`, or the name of another source.
    pub source: Str,
    /// The object, if there is one.
    pub object: Option<ObjectKey>,
    /// The kind of event.
    pub kind: ReasonKind,
}

/// The kind of event that led to a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReasonKind {
    /// It was in the initial list.
    Listed,
    /// It was added.
    Added,
    /// It was updated.
    Updated,
    /// It was resynced without a change.
    Resynced,
    /// It was deleted.
    Deleted,
    /// A reconcile was requested: by a channel, a timer, or a handle.
    Requested,
    /// The previous reconcile requested it.
    Requeued,
    /// The previous reconcile failed.
    Retried,
    /// This replica acquired the shard of the key.
    TakenOver,
}

impl ReasonKind {
    #[cfg(feature = "replay")]
    const ALL: [ReasonKind; 9] = [
        ReasonKind::Listed,
        ReasonKind::Added,
        ReasonKind::Updated,
        ReasonKind::Resynced,
        ReasonKind::Deleted,
        ReasonKind::Requested,
        ReasonKind::Requeued,
        ReasonKind::Retried,
        ReasonKind::TakenOver,
    ];

    /// The kind as text.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ReasonKind::Listed => "listed",
            ReasonKind::Added => "added",
            ReasonKind::Updated => "updated",
            ReasonKind::Resynced => "resynced",
            ReasonKind::Deleted => "deleted",
            ReasonKind::Requested => "requested",
            ReasonKind::Requeued => "requeued",
            ReasonKind::Retried => "retried",
            ReasonKind::TakenOver => "taken over",
        }
    }

    /// The kind of this text. A recording of a newer version may have others.
    #[cfg(feature = "replay")]
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Reason {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        match &self.object {
            Some(object) => write!(f, "{} {object} {kind}", self.source),
            None => write!(f, "{} {kind}", self.source),
        }
    }
}

/// The reasons of a reconcile. Empty if they were already passed to the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Stored separately, because most reconciles have one reason.
    first: Option<Reason>,
    more: Vec<Reason>,
    total: usize,
}

impl Reasons {
    /// The first sixteen distinct reasons, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Reason> {
        (0..self.different()).map(|index| self.at(index))
    }

    /// Total number of events, including repeated ones.
    pub fn total(&self) -> usize {
        self.total
    }

    /// These reasons, as they were recorded.
    #[cfg(feature = "replay")]
    pub(crate) fn recorded(reasons: impl IntoIterator<Item = Reason>) -> Self {
        let mut all = Reasons::default();
        reasons.into_iter().for_each(|reason| all.add(reason));
        all
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

/// Reasons of queued keys.
#[derive(Debug, Default)]
pub(crate) struct PendingReasons(Mutex<HashMap<ObjectKey, Pending>>);

#[derive(Debug, Default)]
struct Pending {
    reasons: Reasons,
    trace: Option<Box<KeyTrace>>,
}

impl PendingReasons {
    /// Must be called before the key is queued, so that its worker finds the reason.
    pub(crate) fn add(&self, controller: &str, key: &ObjectKey, reason: Reason) {
        let mut pending = self.lock();
        let pending = match pending.entry(key.clone()) {
            Entry::Occupied(pending) => pending.into_mut(),
            Entry::Vacant(none) => {
                none.insert(Pending { trace: KeyTrace::start(controller, key), ..Pending::default() })
            }
        };
        if let Some(trace) = pending.trace.as_ref().filter(|_| pending.reasons.different() < LIMIT) {
            trace.received(&reason);
        }
        pending.reasons.add(reason);
    }

    /// The reasons, and the span of the trace if there is one.
    pub(crate) fn take(&self, key: &ObjectKey) -> (Reasons, Option<Span>) {
        let pending = self.lock().remove(key).unwrap_or_default();
        (pending.reasons, pending.trace.map(|trace| trace.taken()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_are_merged_and_counted() {
        let pending = PendingReasons::default();
        let key = ObjectKey::namespaced("default", "web");
        for kind in [ReasonKind::Added, ReasonKind::Updated, ReasonKind::Updated] {
            pending.add("maps", &key, Reason { source: "pods".into(), object: Some(key.clone()), kind });
        }
        let (reasons, _) = pending.take(&key);
        assert_eq!(reasons.to_string(), "pods default/web added, pods default/web updated");
        assert_eq!(reasons.total(), 3);
        assert_eq!(pending.take(&key).0, Reasons::default());
    }

    #[test]
    fn a_flood_of_reasons_is_only_counted() {
        let pending = PendingReasons::default();
        let key = ObjectKey::cluster("all");
        for number in 0..1000 {
            let object = Some(ObjectKey::cluster(format!("{number}")));
            pending.add("maps", &key, Reason { source: "nodes".into(), object, kind: ReasonKind::Updated });
        }
        let (reasons, _) = pending.take(&key);
        assert_eq!((reasons.iter().len(), reasons.total()), (LIMIT, 1000));
    }
}
