//! Cleans up before an object goes.

use std::future::Future;
use std::sync::Arc;

use kubewright_core::options::Patch;
use kubewright_core::{Object, json};

use crate::consistency::OwnApi;
use crate::controller::{BoxError, Outcome};

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
/// The finalizer is there before anything is applied, and goes after everything is cleaned up. Writes are conditional: if the
/// object has changed meanwhile they fail with a conflict, and the reconcile is tried again.
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
                let others =
                    object.finalizers().iter().filter(|name| **name != *finalizer).map(ToString::to_string).collect();
                set_finalizers(api, &*object, others).await?;
            }
            Ok(outcome)
        }
        // Somebody else still has to clean up.
        (true, false) => Ok(Outcome::Done),
    }
}

#[inline]
async fn set_finalizers<T: Object>(api: &OwnApi<T>, object: &T, names: Vec<String>) -> Result<T, BoxError> {
    let patch = json!({"metadata": {"finalizers": names, "resourceVersion": object.resource_version()}});
    Ok(api.patch(object.name(), Patch::merge(patch)).await?)
}
