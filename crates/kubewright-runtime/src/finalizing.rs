//! Reconciles objects with a finalizer.

use std::future::Future;
use std::sync::Arc;

use kubewright_client::Result;
use kubewright_core::options::Patch;
use kubewright_core::{Object, json};

use crate::consistency::{Freshness, OwnApi};
use crate::controller::{BoxError, Outcome};

/// Maximum number of conflicts while removing a finalizer.
const CONFLICTS: u32 = 10;

/// The action for an object with our finalizer.
#[derive(Debug, Clone)]
pub enum Finalizing<T> {
    /// The object exists: reconcile it.
    Apply(Arc<T>),
    /// The object is being deleted: clean up. The finalizer is removed when this returns
    /// [`Outcome::Done`].
    Cleanup(Arc<T>),
}

/// Reconciles an object that needs cleanup before its deletion.
///
/// The finalizer is added before the first `Apply`, and removed after a successful `Cleanup`.
/// Adding it is conditional on the observed version: on a conflict the reconcile is retried.
/// Removing it is not, since the cleanup may write to the object.
///
/// # Errors
/// The errors of `reconcile` and of the server.
#[doc(alias = "AddFinalizer")]
#[doc(alias = "Finalizers")]
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
        // Other finalizers are still pending.
        (true, false) => Ok(Outcome::Done),
    }
}

/// Removes one finalizer from an object that is being deleted, and keeps those of others.
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
            // The object has been deleted.
            _ => return Ok(()),
        }
    }
    Err(format!("{} changes too often to remove the finalizer {finalizer}", object.key()).into())
}

async fn set_finalizers<T: Object>(api: &OwnApi<T>, object: &T, names: Vec<String>) -> Result<T> {
    let patch = json!({"metadata": {"finalizers": names, "resourceVersion": object.resource_version()}});
    api.patch(object.name(), Patch::merge(patch)).await
}
