//! Deletes an object, and never another one that has taken its name.

use kubewright_client::{Api, Result};
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

/// Deletes the object with this uid. It is no error if it is gone, or if another object has its
/// name.
pub(crate) async fn delete_exactly<T: Object, O: Object>(api: &Api<T>, object: &O) -> Result<()> {
    match api.delete_with(object.name(), &DeleteOptions::default().uid(object.uid())).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
