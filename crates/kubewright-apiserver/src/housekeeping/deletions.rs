//! Deletions on behalf of controllers: with their own users, and subject to admission.
//!
//! Policies answer at once. Webhooks are slow, so they are called in separate tasks. A rejected
//! deletion is retried with exponential back-off.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::Str;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::admission::control::Control;
use crate::registry::{DeleteOutcome, Registry};
use kubewright_auth::User;
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::Key;

/// Initial and maximum back-off of a rejected deletion.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Maximum number of concurrent webhook calls.
const MAX_WEBHOOK_CALLS: usize = 16;

/// The controller that deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DeletingController {
    GarbageCollector,
    Namespaces,
}

impl DeletingController {
    fn user(self) -> User {
        let name = match self {
            DeletingController::GarbageCollector => "generic-garbage-collector",
            DeletingController::Namespaces => "namespace-controller",
        };
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        User::authenticated(format!("system:serviceaccount:kube-system:{name}"), "", groups.map(Str::from).into())
    }
}

/// A requested deletion.
#[derive(Debug, Clone)]
pub(super) struct Deletion {
    pub(super) by: DeletingController,
    pub(super) key: Key,
    pub(super) uid: Str,
    pub(super) policy: PropagationPolicy,
    /// The UID of the deleted owner that caused it, or empty.
    pub(super) gone: Str,
}

/// The state of a deletion.
pub(super) enum DeletionState {
    /// The object was removed.
    Gone,
    /// The object is terminating. This is its current state.
    Pending(Arc<StoredObject>),
    /// Webhooks have not answered yet.
    AwaitingWebhooks,
    /// Admission rejected it, for this reason.
    Rejected(Str),
}

type Id = (DeletingController, Key);

/// Deletions that wait for webhooks, and those that were rejected.
pub(super) struct Deletions {
    registry: Arc<Registry>,
    tasks: JoinSet<(Deletion, Result<DeleteOutcome, Rejection>)>,
    permits: Arc<Semaphore>,
    in_progress: HashSet<Id>,
    refused: HashMap<Id, RejectedDeletion>,
    /// The retry times of rejected deletions.
    by_deadline: BTreeSet<(Instant, Id)>,
}

struct RejectedDeletion {
    deletion: Deletion,
    why: Str,
    delay: Duration,
    until: Instant,
}

impl Deletions {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Deletions {
            registry,
            tasks: JoinSet::new(),
            permits: Arc::new(Semaphore::new(MAX_WEBHOOK_CALLS)),
            in_progress: HashSet::new(),
            refused: HashMap::new(),
            by_deadline: BTreeSet::new(),
        }
    }

    /// Deletes an object, unless its webhooks are being called or its back-off has not expired.
    pub(super) fn delete(&mut self, deletion: Deletion) -> DeletionState {
        let id = (deletion.by, deletion.key.clone());
        if self.in_progress.contains(&id) {
            return DeletionState::AwaitingWebhooks;
        }
        let is_same =
            |refused: &&RejectedDeletion| refused.deletion.uid == deletion.uid && refused.until > Instant::now();
        if let Some(refused) = self.refused.get(&id).filter(is_same) {
            return DeletionState::Rejected(refused.why.clone());
        }
        let Some(resource) = self.registry.catalog().of_storage(deletion.key.resource()).cloned() else {
            return DeletionState::Gone;
        };
        let user = deletion.by.user();
        let control = Control::new(&*self.registry, &user, &resource, &Str::new());
        match attempt(&self.registry, &resource, &deletion, &control) {
            Err(Rejection::NeedsWebhook | Rejection::NeedsAuthorization(_)) => {
                self.delete_in_task(id, resource, deletion);
                DeletionState::AwaitingWebhooks
            }
            result => self.settle(deletion, result),
        }
    }

    /// Runs a deletion that needs webhooks in a separate task.
    fn delete_in_task(&mut self, id: Id, resource: Arc<Resource>, deletion: Deletion) {
        self.in_progress.insert(id);
        let (registry, permits) = (Arc::clone(&self.registry), Arc::clone(&self.permits));
        self.tasks.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            let user = deletion.by.user();
            let (writer, requested) = (Arc::clone(&registry), deletion.clone());
            let write = async move {
                let control = Control::new(&*writer, &user, &resource, &Str::new());
                control.run_write(|_| attempt(&writer, &resource, &requested, &control)).await
            };
            let result = registry.run_writes(write).await.and_then(|result| result);
            (deletion, result)
        });
    }

    /// Records the result of a deletion.
    fn settle(&mut self, deletion: Deletion, result: Result<DeleteOutcome, Rejection>) -> DeletionState {
        let id = (deletion.by, deletion.key.clone());
        match result {
            Ok(deleted) => {
                self.forget_one(&id);
                match deleted {
                    DeleteOutcome::Gone(_) => DeletionState::Gone,
                    DeleteOutcome::Pending(object) => DeletionState::Pending(object),
                }
            }
            Err(Rejection::Status(status)) if !matches!(status.code, Some(404 | 409)) => {
                let delay = self.forget_one(&id).map_or(BACKOFF.0, |before| (before * 2).min(BACKOFF.1));
                let (why, until) = (status.message.unwrap_or_default(), Instant::now() + delay);
                self.by_deadline.insert((until, id.clone()));
                self.refused.insert(id, RejectedDeletion { deletion, why: why.clone(), delay, until });
                DeletionState::Rejected(why)
            }
            // 404 or 409: the object is gone or was replaced.
            Err(_) => {
                self.forget_one(&id);
                DeletionState::Gone
            }
        }
    }

    /// Waits for a deletion that has completed in its task or is due for a retry. The caller must
    /// examine the object again. Cancel safe.
    pub(super) async fn next(&mut self) -> Deletion {
        loop {
            let deadline = self.by_deadline.first().map(|(deadline, _)| *deadline);
            let due = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(decided) = self.tasks.join_next() => match decided {
                    Ok((deletion, result)) => {
                        self.in_progress.remove(&(deletion.by, deletion.key.clone()));
                        self.settle(deletion.clone(), result);
                        return deletion;
                    }
                    // A task panicked, and the set does not say which one. Allow all of them again.
                    Err(_) => self.in_progress.clear(),
                },
                () = due => {
                    let Some((_, id)) = self.by_deadline.pop_first() else { continue };
                    let Some(refused) = self.refused.get(&id) else { continue };
                    return refused.deletion.clone();
                }
            }
        }
    }

    /// Drops rejections of a deleted object.
    pub(super) fn forget(&mut self, key: &Key) {
        if !self.refused.is_empty() {
            for by in [DeletingController::GarbageCollector, DeletingController::Namespaces] {
                self.forget_one(&(by, key.clone()));
            }
        }
    }

    /// Drops all rejections, before a full rescan.
    pub(super) fn forget_all(&mut self) {
        self.refused.clear();
        self.by_deadline.clear();
    }

    /// Drops a rejection and returns its back-off.
    fn forget_one(&mut self, id: &Id) -> Option<Duration> {
        let refused = self.refused.remove(id)?;
        self.by_deadline.remove(&(refused.until, id.clone()));
        Some(refused.delay)
    }
}

/// Deletes an object, subject to admission.
fn attempt(
    registry: &Registry,
    resource: &Resource,
    deletion: &Deletion,
    control: &Control<'_>,
) -> Result<DeleteOutcome, Rejection> {
    let Deletion { key, uid, policy, .. } = deletion;
    let mut options = DeleteOptions::default().uid(uid.clone());
    options.propagation_policy = Some(*policy);
    // Without hooks, skip the conversion that admission needs.
    let control = Some(control).filter(|control| control.has_hooks());
    registry.delete(resource, key.namespace().unwrap_or_default(), key.name(), &options, &mut Vec::new(), control)
}
