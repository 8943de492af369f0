//! Deletions that the server does as controllers of a cluster do: in a name of their own, and only if nobody objects.
//!
//! Policies answer at once. Webhooks take their time, so they are asked aside, while all else goes on. An object whose deletion is refused
//! stays, and is tried again after a delay that grows.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::Str;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::admission::control::Control;
use crate::authentication::User;
use crate::catalog::Resource;
use crate::object::StoredObject;
use crate::registry::{Deleted, Registry};
use crate::rejection::Rejection;
use crate::storage::Key;

/// How long an object is left alone whose deletion was refused, the first time and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// About so many deletions webhooks are asked at once.
const QUESTIONS: usize = 16;

/// Who deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Controller {
    GarbageCollector,
    Namespaces,
}

impl Controller {
    fn user(self) -> User {
        let name = match self {
            Controller::GarbageCollector => "generic-garbage-collector",
            Controller::Namespaces => "namespace-controller",
        };
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        User::authenticated(format!("system:serviceaccount:kube-system:{name}"), "", groups.map(Str::from).into())
    }
}

/// An object that has to go.
#[derive(Debug, Clone)]
pub(super) struct Deletion {
    pub(super) by: Controller,
    pub(super) key: Key,
    pub(super) uid: Str,
    pub(super) policy: PropagationPolicy,
    /// The owner of which it is known that it is gone, if that is why.
    pub(super) gone: Str,
}

/// What has become of a deletion.
pub(super) enum Outcome {
    /// The object is gone.
    Gone,
    /// It is on its way, and looks like this.
    Pending(Arc<StoredObject>),
    /// Webhooks have not answered yet.
    Asked,
    /// Somebody objects, for this reason.
    Refused(Str),
}

type Id = (Controller, Key);

/// Deletions that are being asked about, or were refused.
pub(super) struct Deletions {
    registry: Arc<Registry>,
    questions: JoinSet<(Deletion, Result<Deleted, Rejection>)>,
    turns: Arc<Semaphore>,
    asked: HashSet<Id>,
    refused: HashMap<Id, Refused>,
    /// When those that were refused are tried again. Each is in here until its time has come.
    by_deadline: BTreeSet<(Instant, Id)>,
}

struct Refused {
    deletion: Deletion,
    why: Str,
    delay: Duration,
    until: Instant,
}

impl Deletions {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Deletions {
            registry,
            questions: JoinSet::new(),
            turns: Arc::new(Semaphore::new(QUESTIONS)),
            asked: HashSet::new(),
            refused: HashMap::new(),
            by_deadline: BTreeSet::new(),
        }
    }

    /// Deletes an object, unless somebody is still being asked, or has refused it a moment ago.
    pub(super) fn delete(&mut self, deletion: Deletion) -> Outcome {
        let id = (deletion.by, deletion.key.clone());
        if self.asked.contains(&id) {
            return Outcome::Asked;
        }
        let is_same = |refused: &&Refused| refused.deletion.uid == deletion.uid && refused.until > Instant::now();
        if let Some(refused) = self.refused.get(&id).filter(is_same) {
            return Outcome::Refused(refused.why.clone());
        }
        let Some(resource) = self.registry.catalog().of_storage(deletion.key.resource()).cloned() else {
            return Outcome::Gone;
        };
        let user = deletion.by.user();
        let control = Control::new(&self.registry, &user, &resource, &Str::new());
        match attempt(&self.registry, &resource, &deletion, &control) {
            Err(Rejection::Undecided(_) | Rejection::Unconverted(_)) => {
                self.ask(id, resource, deletion);
                Outcome::Asked
            }
            result => self.settle(deletion, result),
        }
    }

    /// Does a deletion aside, which has to ask webhooks.
    fn ask(&mut self, id: Id, resource: Arc<Resource>, deletion: Deletion) {
        self.asked.insert(id);
        let (registry, turns) = (Arc::clone(&self.registry), Arc::clone(&self.turns));
        self.questions.spawn(async move {
            // Nobody closes it.
            let _turn = turns.acquire().await;
            let user = deletion.by.user();
            let control = Control::new(&registry, &user, &resource, &Str::new());
            let result = control.decided(|_| attempt(&registry, &resource, &deletion, &control)).await;
            (deletion, result)
        });
    }

    /// Notes how a deletion ended.
    fn settle(&mut self, deletion: Deletion, result: Result<Deleted, Rejection>) -> Outcome {
        let id = (deletion.by, deletion.key.clone());
        match result {
            Ok(deleted) => {
                self.forget_one(&id);
                match deleted {
                    Deleted::Gone(_) => Outcome::Gone,
                    Deleted::Pending(object) => Outcome::Pending(object),
                }
            }
            Err(Rejection::Status(status)) if !matches!(status.code, Some(404 | 409)) => {
                let delay = self.forget_one(&id).map_or(BACKOFF.0, |before| (before * 2).min(BACKOFF.1));
                let (why, until) = (status.message.unwrap_or_default(), Instant::now() + delay);
                self.by_deadline.insert((until, id.clone()));
                self.refused.insert(id, Refused { deletion, why: why.clone(), delay, until });
                Outcome::Refused(why)
            }
            // It is gone already, or another one has its name.
            Err(_) => {
                self.forget_one(&id);
                Outcome::Gone
            }
        }
    }

    /// Waits for a deletion that has been decided aside, or that should be tried again. Whoever wanted it has to look again. Cancel safe.
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
                Some(decided) = self.questions.join_next() => match decided {
                    Ok((deletion, result)) => {
                        self.asked.remove(&(deletion.by, deletion.key.clone()));
                        self.settle(deletion.clone(), result);
                        return deletion;
                    }
                    // One broke, and nobody knows which: who wants any of them may ask again.
                    Err(_) => self.asked.clear(),
                },
                () = due => {
                    let Some((_, id)) = self.by_deadline.pop_first() else { continue };
                    let Some(refused) = self.refused.get(&id) else { continue };
                    return refused.deletion.clone();
                }
            }
        }
    }

    /// Forgets what was refused about an object that is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        if !self.refused.is_empty() {
            for by in [Controller::GarbageCollector, Controller::Namespaces] {
                self.forget_one(&(by, key.clone()));
            }
        }
    }

    /// Forgets all that was refused, for who looks at everything again.
    pub(super) fn forget_all(&mut self) {
        self.refused.clear();
        self.by_deadline.clear();
    }

    /// Forgets a refusal, and says how long it was to last.
    fn forget_one(&mut self, id: &Id) -> Option<Duration> {
        let refused = self.refused.remove(id)?;
        self.by_deadline.remove(&(refused.until, id.clone()));
        Some(refused.delay)
    }
}

/// Deletes an object, if those agree who have a say in it.
fn attempt(
    registry: &Registry,
    resource: &Resource,
    deletion: &Deletion,
    control: &Control<'_>,
) -> Result<Deleted, Rejection> {
    let Deletion { key, uid, policy, .. } = deletion;
    let mut options = DeleteOptions::default().uid(uid.clone());
    options.propagation_policy = Some(*policy);
    // Where there is nobody, it need not be shown in any version.
    let control = Some(control).filter(|control| control.has_listeners());
    registry.delete(resource, key.namespace().unwrap_or_default(), key.name(), &options, &mut Vec::new(), control)
}
