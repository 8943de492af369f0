//! Cleans up before an object goes.

use std::future::Future;
use std::sync::Arc;

use kubewright_client::Result;
use kubewright_core::options::Patch;
use kubewright_core::{Object, json};

use crate::consistency::{Freshness, OwnApi};
use crate::controller::{BoxError, Outcome};

/// How often others may come between the look at an object and the removal of its finalizer.
const CONFLICTS: u32 = 10;

/// What is to be done with an object that has a finalizer of ours.
#[derive(Debug, Clone)]
pub enum Finalizing<T> {
    /// It is to stay: bring the world in line with it.
    Apply(Arc<T>),
    /// It is about to go: undo what was done for it. The finalizer is removed when this has succeeded with
    /// [`Outcome::Done`].
    Cleanup(Arc<T>),
}

/// Reconciles an object that must not go before it is cleaned up after.
///
/// The finalizer is there before anything is applied, and goes after everything is cleaned up. It is added only to the object as
/// it was seen: if that has changed meanwhile, the reconcile fails with a conflict and is tried again. It is removed
/// whatever has changed, since cleaning up may write to the object as well.
///
/// # Errors
/// Those of `reconcile`, and of the server.
#[doc(alias = "AddFinalizer")]
#[doc(alias = "Finalizers")]
#[inline]
pub async fn finalize<T, F, R>(
    api: &OwnApi<T>,
    finalizer: &str,
    object: Arc<T>,
    reconcile: F,
) -> Result<Outcome, BoxError>
where
    T: Object,
    F: FnOnce(Finalizing<T>) -> R,
    R: Future<Output = Result<Outcome, BoxError>>,
{
    let is_ours = object.finalizers().iter().any(|name| name == finalizer);
    match (object.is_being_deleted(), is_ours) {
        (false, true) => reconcile(Finalizing::Apply(object)).await,
        (false, false) => {
            let mut names: Vec<String> = object.finalizers().iter().map(ToString::to_string).collect();
            names.push(finalizer.to_owned());
            let object = set_finalizers(api, &*object, names).await?;
            reconcile(Finalizing::Apply(Arc::new(object))).await
        }
        (true, true) => {
            let outcome = reconcile(Finalizing::Cleanup(object.clone())).await?;
            if outcome == Outcome::Done {
                remove(api, finalizer, object).await?;
            }
            Ok(outcome)
        }
        // Somebody else still has to clean up.
        (true, false) => Ok(Outcome::Done),
    }
}

/// Removes a finalizer from an object that is being deleted, and none of those that others have.
#[inline]
async fn remove<T: Object>(api: &OwnApi<T>, finalizer: &str, mut object: Arc<T>) -> Result<(), BoxError> {
    let uid = object.uid().to_owned();
    for _ in 0..CONFLICTS {
        let others = object.finalizers().iter().filter(|name| **name != *finalizer).map(ToString::to_string).collect();
        match set_finalizers(api, &*object, others).await {
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(()),
            result => return Ok(result.map(drop)?),
        }
        match api.get(object.name(), Freshness::Live).await? {
            Some(now) if now.uid() == uid && now.finalizers().iter().any(|name| name == finalizer) => object = now,
            // It has gone, with or without our help.
            _ => return Ok(()),
        }
    }
    Err(format!("{} changes too often to remove the finalizer {finalizer}", object.key()).into())
}

#[inline]
async fn set_finalizers<T: Object>(api: &OwnApi<T>, object: &T, names: Vec<String>) -> Result<T> {
    let patch = json!({"metadata": {"finalizers": names, "resourceVersion": object.resource_version()}});
    api.patch(object.name(), Patch::merge(patch)).await
}
